from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from typing import Any

from foundation.commands.base import EngineCommand
from foundation.stores.kafka import EventLogAdmin


class CreateTopicsCommand(EngineCommand):
    help = "Create the Kafka topics that are missing, with seven days of retention."

    event_log: Callable[[], EventLogAdmin]

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--partitions", type=_count, default=12, metavar="N", help="partitions of each topic (default 12)"
        )
        parser.add_argument(
            "--replication",
            type=lambda text: None if text == "auto" else _count(text),
            default=3,
            metavar="N|auto",
            help="replicas of each partition (default 3); auto: three, or as many as there are brokers if fewer",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        created = self.event_log().create_topics(partitions=options["partitions"], replication=options["replication"])
        self.stdout.write(f"created {', '.join(created)}" if created else "every topic exists")


def _count(text: str) -> int:
    """Raises `ArgumentTypeError`."""
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise ArgumentTypeError(f"a number above 0 is needed, not {text!r}")
    return int(text)
