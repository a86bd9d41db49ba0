from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from config.wiring.recovery import deployment
from staff.command import COULD_NOT_LOOK as EXIT_COULD_NOT_LOOK
from staff.command import StaffCommand
from staff.services.deploy_checks import COULD_NOT_LOOK, check


class Command(StaffCommand):
    """Thin: `staff.services.deploy_checks` does the work."""

    help = (
        "Say in sentences what would go wrong: settings and secrets, schema, permissions of this role, topics, Redis's "
        "mode, clocks. Changes nothing. Exit code 0: nothing; 1: found; 2: an engine could not be looked at."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--role", choices=["web", "fanout"], default="web", help="what this role is for (default: web)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        report = check(deployment(may_write=options["role"] == "web"))
        try:
            self.finish(report, options)
        except CommandError as error:
            if any(finding.kind == COULD_NOT_LOOK for finding in report.findings):
                raise CommandError(str(error), returncode=EXIT_COULD_NOT_LOOK) from error
            raise
