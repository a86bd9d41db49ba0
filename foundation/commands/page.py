"""The base of commands that make a page of `docs/` from what the code declares."""

from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand


class PageCommand(BaseCommand):
    """Prints a Markdown table, or writes it into its page, below the preface."""

    requires_system_checks: list[str] = []
    path: str
    preface: str
    headings: Sequence[str]
    declaring: Sequence[str]
    """Modules which, once imported, have declared everything."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--write", action="store_true", help=f"write {self.path} instead of printing")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["write"]:
            self.stdout.write(self.table())
            return
        (Path(settings.BASE_DIR) / self.path).write_text(self.page())
        self.stdout.write(f"wrote {self.path}")

    def page(self) -> str:
        return f"{self.preface}{self.table()}\n"

    def table(self) -> str:
        self.import_declarations()
        lines = [self.headings, ["---" for _ in self.headings], *self.rows()]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def import_declarations(self) -> None:
        for module in self.declaring:
            import_module(module)

    def rows(self) -> Iterable[Sequence[str]]:
        raise NotImplementedError
