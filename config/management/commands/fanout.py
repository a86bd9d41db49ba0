import signal
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from prometheus_client import start_http_server

from config.wiring.fanout import fanout
from foundation.kernel.tuning import tune_gc


class Command(BaseCommand):
    """Thin: `delivery.fanout` does the work."""

    help = "Deliver messages from Kafka to the gateways of online members. Run up to as many as there are partitions."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--metrics-port", type=int, default=0, help="serve Prometheus metrics here (default: not)")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["metrics_port"]:
            start_http_server(options["metrics_port"])
        worker = fanout()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: worker.stop())
        tune_gc()
        self.stdout.write("fanout is running")
        worker.run()
        self.stdout.write("fanout has stopped")
