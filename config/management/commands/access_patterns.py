from typing import Any

from django.core.management.base import BaseCommand

import config.wiring  # noqa: F401 - importing the stores declares their patterns
from config.stores.dynamodb.patterns import declared

HEADINGS = ("Access pattern", "Table", "Index", "Operation", "Key", "Consistency", "Condition")


class Command(BaseCommand):
    """Prints what the stores declare, as a Markdown table."""

    help = "Print the matrix of every DynamoDB access pattern, from the declarations beside the stores."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(matrix())


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
