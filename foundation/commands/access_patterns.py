from collections.abc import Iterable, Sequence

from foundation.commands.page import PageCommand
from foundation.stores.dynamodb.patterns import declared

PREFACE = """# Access patterns

Every way in which Parley touches DynamoDB, by table. Made by `manage.py access_patterns --write` from the declarations
beside the stores (ADR-008). No service scans: `Scan (offline)` is of operators' commands with `--all`, which say so.

"""


class AccessPatternsCommand(PageCommand):
    help = "Print the matrix of every DynamoDB access pattern, from the declarations beside the stores."
    path = "docs/access-patterns.md"
    preface = PREFACE
    headings = ("Access pattern", "Table", "Index", "Operation", "Key", "Consistency", "Condition")

    def rows(self) -> Iterable[Sequence[str]]:
        return [
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
