from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError

from foundation.commands.base import COULD_NOT_LOOK
from staff.commands.base import LookCommand
from staff.services.deploy_checks import UNAVAILABLE, Deployment, check


class CheckDeployCommand(LookCommand):
    """`deployment` returns what to look at, given what the role is for."""

    deployment: Callable[[str], Deployment]

    help = (
        "Say in sentences what would go wrong: settings and secrets, schema, permissions of this role, topics, Redis's "
        "mode, clocks. Changes nothing. Exit code 0: nothing; 1: found; 2: an engine could not be looked at."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--role",
            choices=["staff", "web", "fanout", "watch"],
            default="staff",
            help="what this role is for (default: staff, which runs commands)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        report = check(self.deployment(options["role"]))
        try:
            self.finish(report, options)
        except CommandError as error:
            if any(finding.kind == UNAVAILABLE for finding in report.findings):
                raise CommandError(str(error), returncode=COULD_NOT_LOOK) from error
            raise
