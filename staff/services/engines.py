"""What the engines are doing, each part on its own: one that is away hides nothing of the others."""

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


@dataclass(frozen=True, slots=True)
class TableStatus:
    """`items` and `size` are DynamoDB's own estimates, a few hours old on AWS."""

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
    ) -> None:
        self._probes = probes
        self._database = database
        self._tables = tables
        self._kafka = kafka

    def health(self) -> dict[str, dict[str, Any]]:
        """One entry per engine, as `/readyz` has it."""
        return self._probes.check()

    def tables(self) -> list[TableStatus]:
        return [self._describe(self._database.table_name(model)) for model in self._tables]

    def lag(self) -> ConsumerLag:
        """Of the group `fanout`."""
        group = ConsumerGroup(self._kafka, GROUP)
        try:
            return ConsumerLag(group.progress(TOPICS))
        except ParleyError as error:
            return ConsumerLag(error=error.detail)
        finally:
            group.close()

    def _describe(self, name: str) -> TableStatus:
        try:
            table = self._database.call("DescribeTable", {"TableName": name})["Table"]
        except ParleyError as error:
            return TableStatus(name, error.detail)
        return TableStatus(name, table["TableStatus"], table.get("ItemCount"), table.get("TableSizeBytes"))
