import os
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    """Thin: `foundation.server.daphne` does the work."""

    help = "Serve REST and WebSocket under daphne. On SIGTERM, clients are told to reconnect before the process ends."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
        parser.add_argument("--port", type=int, default=int(os.environ.get("PORT", "8000")), help="default 8000")

    def handle(self, *args: Any, **options: Any) -> None:
        # Twisted's reactor is chosen by the first import: nothing else may bring it in before.
        from config.asgi import application  # noqa: PLC0415
        from config.wiring.web import web  # noqa: PLC0415
        from foundation.server.daphne import ParleyServer  # noqa: PLC0415

        endpoint = f"tcp:port={options['port']}:interface={options['host'].replace(':', chr(92) + ':')}"
        parts = web()
        ParleyServer(
            application,
            endpoints=[endpoint],
            ready_callable=parts.start,
            before_shutdown=parts.close,
            fast_sockets=settings.FAST_SOCKETS,
        ).run()
