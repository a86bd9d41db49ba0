"""A new engine for each test."""

from collections.abc import Iterator

import pytest

from tests.unit.engines.dynamolite.engine import Engine


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine()
    engine.create_tables()
    yield engine
    engine.store.close()
