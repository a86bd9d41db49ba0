"""`manage.py person` while an engine is away."""

import json
from datetime import UTC, datetime
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest

from accounts.domain import User
from foundation.kernel.ids import UserId
from foundation.stores.errors import StoreUnavailable
from staff.commands.people import ShowPersonCommand

NOW = datetime(2026, 1, 30, tzinfo=UTC)
ADA = User(
    user_id=UserId("user_1"),
    phone_number="+14155550123",
    phone_verified=True,
    display_name="Ada",
    created_at=NOW,
    updated_at=NOW,
)


def away(user_id: UserId) -> Any:
    raise StoreUnavailable("Redis does not answer")


@pytest.mark.parametrize("is_json", [False, True])
def test_without_redis_only_the_connections_are_missing(is_json: bool) -> None:
    people = SimpleNamespace(list_sessions=lambda _: [], list_inbox=lambda _: [])
    services: Any = SimpleNamespace(people=people, gateways=SimpleNamespace(connections_of=away))
    output = StringIO()
    ShowPersonCommand(stdout=output).act(services, ADA, {"json": is_json})
    if is_json:
        assert json.loads(output.getvalue())["connections"] is None
    else:
        assert output.getvalue().splitlines() == [
            "Ada  +14155550123  user_1  active",
            "connections are not known: Redis does not answer",
        ]
