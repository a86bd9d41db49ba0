"""What the engines are doing, each part on its own: one that is away hides nothing of the others."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pynamodb.models import Model

from foundation.kernel.errors import ParleyError
from foundation.kernel.events import TOPICS
from foundation.rest.health import EngineProbes
from foundation.stores.dynamodb import Database
from foundation.stores.kafka import KafkaOptions
from foundation.stores.kafka.groups import ConsumerGroup, Progress

GROUP = "fanout"
DESCRIBE_TIMEOUT_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class TableStatus:
    """`items` and `size` are DynamoDB's own estimates, about six hours old on AWS, and 0 on the embedded engine."""

    name: str
    status: str
    items: int | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class ConsumerLag:
    """How far the consumer group is in each partition, or why Kafka does not tell."""

    partitions: Sequence[Progress] = ()
    error: str = ""


class Engines:
    def __init__(
        self,
        *,
        probes: EngineProbes,
        database: Database,
        tables: Sequence[type[Model]],
        kafka: KafkaOptions,
        describe_timeout: float = DESCRIBE_TIMEOUT_SECONDS,
    ) -> None:
        self._probes = probes
        self._database = database
        self._tables = tables
        self._kafka = kafka
        self._describe_timeout = describe_timeout

    def health(self) -> dict[str, dict[str, Any]]:
        """One entry per engine, as `/readyz` has it."""
        return self._probes.check()

    def tables(self) -> list[TableStatus]:
        """All tables at once, with a timeout: a page must not wait for a DynamoDB that hangs, table after table."""
        return self._database.loop.run(self._describe_all())

    def lag(self) -> ConsumerLag:
        """Of the group `fanout`."""
        group = ConsumerGroup(self._kafka, GROUP)
        try:
            return ConsumerLag(group.progress(TOPICS))
        except ParleyError as error:
            return ConsumerLag(error=error.detail)
        finally:
            group.close()

    async def _describe_all(self) -> list[TableStatus]:
        names = [self._database.table_name(model) for model in self._tables]
        return await asyncio.gather(*[self._describe(name) for name in names])

    async def _describe(self, name: str) -> TableStatus:
        try:
            async with asyncio.timeout(self._describe_timeout):
                answer = await self._database.on_loop.call("DescribeTable", {"TableName": name})
        except TimeoutError:
            return TableStatus(name, "no answer in time")
        except ParleyError as error:
            return TableStatus(name, error.detail)
        table = answer["Table"]
        return TableStatus(name, table["TableStatus"], table.get("ItemCount"), table.get("TableSizeBytes"))
