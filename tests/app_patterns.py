"""For tests that look at all access patterns: those of the apps, whatever tests ran before in this process."""

from collections.abc import Iterator
from typing import Any

import pytest

from foundation.stores.dynamodb.patterns import AccessPattern, declared
from staff.services import access


def declared_by_the_apps() -> Iterator[AccessPattern[Any]]:
    return (pattern for pattern in declared() if not pattern.name.startswith("test: "))


@pytest.fixture(autouse=True)
def app_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the patterns that tests declare."""
    monkeypatch.setattr(access, "declared", declared_by_the_apps)
