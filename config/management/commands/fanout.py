import signal
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from config.start import log_start
from config.wiring.fanout import fanout
from delivery.fanout.health import HealthServer
from foundation.kernel.tuning import tune_gc


class Command(BaseCommand):
    """Thin: `delivery.fanout` does the work."""

    help = "Deliver messages from Kafka to the gateways of online members. Run up to as many as there are partitions."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--metrics-port", type=int, default=0, help="serve /metrics, /healthz and /readyz here (default: not)"
        )
        parser.add_argument(
            "--metrics-host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1, this machine)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        log_start("fanout")
        worker = fanout()
        if options["metrics_port"]:
            HealthServer(options["metrics_host"], options["metrics_port"], worker.probes).start()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: worker.stop())
        tune_gc()
        self.stdout.write("fanout is running")
        worker.run()
        self.stdout.write("fanout has stopped")
