"""The options of a process that serves nothing but its health."""

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from foundation.rest.health import EngineProbes
from foundation.server.health import HealthServer


def add_health_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--metrics-port", type=int, default=0, help="serve /metrics, /healthz and /readyz here (default: not)"
    )
    parser.add_argument(
        "--metrics-host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1, this machine)"
    )


def serve_health(options: Mapping[str, Any], probes: EngineProbes) -> None:
    """Start to serve, if the options ask for it."""
    if options["metrics_port"]:
        HealthServer(options["metrics_host"], options["metrics_port"], probes).start()
