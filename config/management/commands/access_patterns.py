from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

import config.wiring.recovery
import config.wiring.web  # noqa: F401 - importing the stores declares their patterns
from foundation.stores.dynamodb.patterns import declared

HEADINGS = ("Access pattern", "Table", "Index", "Operation", "Key", "Consistency", "Condition")
PREFACE = """# Access patterns

Every way in which Parley touches DynamoDB, by table. Made by `manage.py access_patterns --write` from the declarations
beside the stores (ADR-008). No service scans: `Scan (offline)` is of operators' commands with `--all`, which say so.

"""


class Command(BaseCommand):
    """Prints what the stores declare, as a Markdown table."""

    help = "Print the matrix of every DynamoDB access pattern, from the declarations beside the stores."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--write", action="store_true", help="write docs/access-patterns.md instead of printing")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["write"]:
            self.stdout.write(matrix())
            return
        path = Path(settings.BASE_DIR) / "docs" / "access-patterns.md"
        path.write_text(f"{PREFACE}{matrix()}\n")
        self.stdout.write(f"wrote {path.relative_to(settings.BASE_DIR)}")


def matrix() -> str:
    rows = [
        (
            pattern.name,
            f"`{pattern.table}`",
            f"`{pattern.index_name}`" if pattern.index_name else "Base",
            f"`{pattern.operation}`",
            f"`{pattern.key}`",
            f"**{pattern.consistency}**" if pattern.strong else str(pattern.consistency),
            pattern.condition or "–",
        )
        for pattern in declared()
    ]
    lines = [HEADINGS, tuple("---" for _ in HEADINGS), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
