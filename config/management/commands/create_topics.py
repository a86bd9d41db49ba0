from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from config.wiring.commands import clients
from foundation.kernel.errors import ParleyError


class Command(BaseCommand):
    """Thin: `EventLogAdmin` does the work."""

    help = "Create the Kafka topics that are missing, with seven days of retention."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--partitions", type=int, default=12, help="partitions of each topic (default 12)")
        parser.add_argument(
            "--replication",
            type=lambda text: None if text == "auto" else int(text),
            default=3,
            help="replicas of each partition (default 3); auto: three, or as many as there are brokers",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            created = clients().event_log.create_topics(
                partitions=options["partitions"], replication=options["replication"]
            )
        except ParleyError as error:
            raise CommandError(error.detail) from error
        self.stdout.write(f"created {', '.join(created)}" if created else "every topic exists")
