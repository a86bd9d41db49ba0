import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from config.dev import EngineSource, run_dev
from engines.console import Console
from engines.errors import CannotRun, DataDirectoryInUse, DataDirectoryUnusable, PortUnusable

REMEDIES: dict[type[CannotRun], str] = {
    PortUnusable: "Choose another port with --port.",
    DataDirectoryUnusable: "Make it writable, or choose another directory with --data-dir.",
    DataDirectoryInUse: "Stop that run, or choose another directory with --data-dir.",
}


class Command(BaseCommand):
    """Thin: `config.dev` does the work."""

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

    def handle(self, *args: Any, port: int, data_dir: Path, engines: EngineSource, **options: Any) -> None:
        try:
            run_dev(port=port, data_dir=data_dir, source=engines, console=Console(sys.stdout))
        except CannotRun as error:
            self.stderr.write(f"{error} {REMEDIES.get(type(error), '')}".strip())
            sys.exit(1)
