"""What DynamoDB tables are created with: `TABLE_CAPACITY=users:40/10,chats:on-demand`."""

import re

from config.settings.environment import Environment

TABLES = (
    "users",
    "sessions",
    "chats",
    "chat_memberships",
    "chat_counters",
    "messages",
    "idempotency_keys",
    "delivery_state",
)
ON_DEMAND = "on-demand"
_CAPACITY = re.compile(r"(?P<table>[a-z_]+):((?P<read>[1-9]\d*)/(?P<write>[1-9]\d*)|on-demand)")


def table_capacity(env: Environment) -> dict[str, tuple[int, int] | None]:
    """Read and write units by table, None for on demand. A table that is not in it has the capacity of its model."""
    capacity: dict[str, tuple[int, int] | None] = {}
    for text in env.listed("TABLE_CAPACITY"):
        if (found := _CAPACITY.fullmatch(text)) is None:
            env.refuse(f"TABLE_CAPACITY must be table:read/write or table:{ON_DEMAND}, comma-separated, not {text!r}.")
        elif found["table"] not in TABLES:
            env.refuse(f"TABLE_CAPACITY has {found['table']!r}, which is none of {', '.join(TABLES)}.")
        else:
            capacity[found["table"]] = (int(found["read"]), int(found["write"])) if found["read"] else None
    return capacity
