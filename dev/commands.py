import os
import sys
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from dev.run import DevOptions, EngineSource, run_dev
from engines.console import Console
from engines.dynamolite.delay import AnswerDelay
from engines.errors import CannotRun, DataDirectoryInUse, DataDirectoryUnusable, PortUnusable

REMEDIES: dict[type[CannotRun], str] = {
    PortUnusable: "Choose another port with --port.",
    DataDirectoryUnusable: "Make it writable, or choose another directory with --data-dir.",
    DataDirectoryInUse: "Stop that run, or choose another directory with --data-dir.",
}
MAX_PROCESSES = 64


class DevCommand(BaseCommand):
    help = "Run Parley on this machine. Ctrl-C stops everything; the data directory keeps the data."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--port",
            type=int,
            default=os.environ.get("PORT") or "8000",
            help="where to listen on 127.0.0.1 (default: PORT, else 8000)",
        )
        parser.add_argument(
            "--data-dir",
            type=Path,
            default=settings.DATA_DIR,
            help="where the data is kept (default: DATA_DIR, else .parley)",
        )
        parser.add_argument(
            "--engines",
            type=EngineSource,
            choices=list(EngineSource),
            default=os.environ.get("ENGINES") or EngineSource.EMBEDDED,
            help="embedded: started with the run; external: those that the environment names (default: ENGINES, "
            "else embedded)",
        )

        for kind in ("web", "fanout"):
            parser.add_argument(
                f"--{kind}",
                type=_count,
                default=os.environ.get(kind.upper()) or "1",
                metavar="N",
                help=f"how many {kind} processes to run (default: {kind.upper()}, else 1)",
            )
        parser.add_argument(
            "--store-delay",
            type=AnswerDelay.parse,
            default=os.environ.get("STORE_DELAY") or None,
            metavar="T/R",
            help="the embedded DynamoDB answers transactions after T milliseconds and other requests after R, as one "
            "across a network does (default: STORE_DELAY, else at once)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        chosen = DevOptions(
            port=options["port"],
            data_dir=options["data_dir"],
            source=options["engines"],
            webs=options["web"],
            fanouts=options["fanout"],
            admin_port=settings.ADMIN_PORT,
            store_delay=options["store_delay"],
        )
        try:
            run_dev(chosen, Console(sys.stdout))
        except CannotRun as error:
            self.stderr.write(f"{error} {REMEDIES.get(type(error), '')}".strip())
            sys.exit(1)


def _count(text: str) -> int:
    """Raises `ArgumentTypeError`."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_PROCESSES:
        raise ArgumentTypeError(f"a number from 1 to {MAX_PROCESSES} is needed, not {text!r}")
    return int(text)
