import os
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from foundation.server.listening import describe_endpoint, listens_on_loopback, share_endpoint

if TYPE_CHECKING:
    from foundation.server.daphne import ParleyServer


class WebCommand(BaseCommand):
    help = "Serve REST and WebSocket under daphne. On SIGTERM, clients are told to reconnect before the process ends."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
        parser.add_argument("--port", type=int, default=os.environ.get("PORT") or "8000", help="default 8000")
        parser.add_argument(
            "--reuse-port",
            action="store_true",
            help="share the port with other processes that have this option; on Linux, connections spread over them "
            "(ADMIN_PORT is not shared: give each process its own)",
        )
        parser.add_argument(
            "--insecure",
            action="store_true",
            help="listen beyond loopback with the settings of a laptop, where anybody can log in without a code",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.EMBEDDED and not options["insecure"] and not listens_on_loopback(options["host"]):
            raise CommandError(
                f"{options['host'] or 'Every address'} is not loopback, and these settings let anybody log in without "
                "a code: set DJANGO_SETTINGS_MODULE=config.settings.production, or add --insecure.",
                returncode=2,
            )
        from foundation.server.twisted import install_reactor  # noqa: PLC0415

        # Before the first import of daphne, which would install another reactor.
        install_reactor(fast=settings.FAST_SOCKETS)
        self.server(_endpoints(options["host"], options["port"], shared=options["reuse_port"])).run()

    def server(self, endpoints: Iterable[str]) -> "ParleyServer":
        """Called after the reactor is installed. A shared port listens as soon as its endpoint is taken."""
        raise NotImplementedError


def _endpoints(host: str, port: int, *, shared: bool) -> Iterator[str]:
    """The endpoints of clients and of operators. Raises `CommandError`."""
    try:
        yield share_endpoint(host, port) if shared else describe_endpoint(host, port)
    except OSError as error:
        raise CommandError(f"Port {port} of {host} cannot be shared: {error}.", returncode=2) from error
    if settings.ADMIN_PORT:
        yield describe_endpoint(settings.ADMIN_HOST, settings.ADMIN_PORT)
