"""The engines as a page shows them, also while one of them hangs."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from config.wiring.commands import TABLES
from foundation.kernel.loops import ServiceLoop
from foundation.rest.health import EngineProbes
from foundation.stores.dynamodb import Database
from foundation.stores.kafka import KafkaOptions
from staff.services.engines import Engines


class Store:
    """Answers when all tables are asked for, or never."""

    def __init__(self, loop: ServiceLoop, *, hangs: bool) -> None:
        self.loop, self.on_loop = loop, self
        self._barrier = asyncio.Barrier(len(TABLES) + hangs)

    def table_name(self, model: Any) -> str:
        return str(model.Meta.table_name)

    async def call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        await self._barrier.wait()
        return {"Table": {"TableStatus": "ACTIVE", "ItemCount": 3, "TableSizeBytes": 9}}


@pytest.fixture
def loop() -> Iterator[ServiceLoop]:
    loop = ServiceLoop()
    yield loop
    loop.close()


def engines(store: Store, *, timeout: float) -> Engines:
    return Engines(
        probes=EngineProbes({}),
        database=cast(Database, store),
        tables=TABLES,
        kafka=cast(KafkaOptions, SimpleNamespace()),
        describe_timeout=timeout,
    )


class TestTables:
    def test_all_are_asked_for_at_once(self, loop: ServiceLoop) -> None:
        found = engines(Store(loop, hangs=False), timeout=30.0).tables()
        assert [(table.status, table.items) for table in found] == [("ACTIVE", 3)] * len(TABLES)

    def test_a_store_that_hangs_is_told_and_not_waited_for(self, loop: ServiceLoop) -> None:
        found = engines(Store(loop, hangs=True), timeout=0.01).tables()
        assert [table.status for table in found] == ["no answer in time"] * len(TABLES)
