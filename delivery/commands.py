import signal
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand

from delivery.parts import Fanout
from foundation.commands.health import add_health_arguments, serve_health
from foundation.kernel.tuning import tune_gc


class FanoutCommand(BaseCommand):
    """`log_start` logs the start of a process, given its name."""

    worker: Callable[[], Fanout]
    log_start: Callable[[str], None]

    help = "Deliver messages from Kafka to the gateways of online members. Run up to as many as there are partitions."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_health_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        self.log_start("fanout")
        worker = self.worker()
        serve_health(options, worker.probes)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: worker.stop())
        tune_gc()
        self.stdout.write("fanout is running")
        worker.run()
        self.stdout.write("fanout has stopped")
