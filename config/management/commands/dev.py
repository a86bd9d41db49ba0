"""`manage.py dev`: everything on this machine, in one terminal."""

import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import get_commands
from django.core.management.base import BaseCommand

from engines.console import Console
from engines.errors import CannotRun
from engines.supervisor import EngineSource, RunPlan, Supervisor


class Command(BaseCommand):
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
        plan = RunPlan(port=port, data_dir=data_dir, with_fanout="fanout" in get_commands(), engines=engines)
        try:
            Supervisor(plan, Console(sys.stdout)).run()
        except CannotRun as error:
            self.stderr.write(str(error))
            sys.exit(1)
