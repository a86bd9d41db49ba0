"""The table `chat_counters`: the highest sequence of each chat, how many have left it, and the proof that it exists.

A counter is born with its chat in one transaction. Who needs to know strongly whether a chat exists reads its counter.
Every membership that ends is counted here in the transaction that ends it: as long as the departures stand still,
whoever was a member still is one (ADR-019).
"""

from collections.abc import Iterable
from datetime import datetime

from chats.domain import Tally
from chats.models import CounterModel
from foundation.kernel.clock import to_iso
from foundation.kernel.ids import ChatId
from foundation.stores.dynamodb import AccessPattern, Consistency, Database, Operation, Write
from foundation.stores.dynamodb.database import BatchResult

_SOME_LEFT = "sequence_counter = :current AND departures = :departures"
_NOBODY_LEFT = "sequence_counter = :current AND attribute_not_exists(departures)"

ALLOCATE_SEQUENCE = AccessPattern(
    "Allocate sequence",
    CounterModel,
    Operation.TRANSACT_UPDATE,
    key="chat_id",
    condition=_SOME_LEFT,
)
COUNT_DEPARTURE = AccessPattern(
    "Count departure",
    CounterModel,
    Operation.TRANSACT_UPDATE,
    key="chat_id",
    condition="attribute_exists(chat_id)",
)
CREATE_COUNTER = AccessPattern(
    "Create counter", CounterModel, Operation.TRANSACT_PUT, key="chat_id", condition="attribute_not_exists(chat_id)"
)
GET_LATEST_SEQUENCE = AccessPattern(
    "Get latest sequence", CounterModel, Operation.GET, key="chat_id", consistency=Consistency.STRONG
)
GET_LATEST_SEQUENCES = AccessPattern(
    "Get latest sequences", CounterModel, Operation.BATCH_GET, key="chat_id", consistency=Consistency.STRONG
)


class CounterStore:
    """Counters by chat."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._table = database.table_name(CounterModel)

    def find(self, chat_id: ChatId) -> int | None:
        item = self._database.get(GET_LATEST_SEQUENCE, chat_id)
        return None if item is None else int(item.sequence_counter)

    def find_many(self, chat_ids: Iterable[ChatId]) -> dict[ChatId, int]:
        return self.found_in(self._database.batch_get({GET_LATEST_SEQUENCES: [(chat_id,) for chat_id in chat_ids]}))

    def found_in(self, result: BatchResult) -> dict[ChatId, int]:
        """What a batch read of counters brought."""
        return {chat_id: tally.sequence for chat_id, tally in self.tallies_in(result).items()}

    def tallies_in(self, result: BatchResult) -> dict[ChatId, Tally]:
        """The same with their departures."""
        items = result.raw(GET_LATEST_SEQUENCES).values()
        return {
            ChatId(item["chat_id"]["S"]): Tally(
                int(item["sequence_counter"]["N"]), int(item["departures"]["N"]) if "departures" in item else 0
            )
            for item in items
        }

    def creating(self, chat_id: ChatId, *, now: datetime) -> Write:
        """The counter at birth: 0."""
        item = CounterModel(chat_id=chat_id, sequence_counter=0, created_at=to_iso(now), updated_at=to_iso(now))
        return self._database.putting(CREATE_COUNTER, item, CounterModel.chat_id.does_not_exist())

    def counting_departure(self, chat_id: ChatId) -> Write:
        """The counter's part of a membership's end."""
        departures = CounterModel.departures
        exists = CounterModel.chat_id.exists()
        return self._database.updating(COUNT_DEPARTURE, (chat_id,), [departures.add(1)], exists)

    def moving(self, chat_id: ChatId, *, current: Tally, added: int, now: datetime) -> Write:
        """From `current` to `added` more, or not at all: fails when it stands elsewhere, or somebody has left."""
        values = {
            ":next": {"N": str(current.sequence + added)},
            ":now": {"S": to_iso(now)},
            ":current": {"N": str(current.sequence)},
        }
        if current.departures:
            values[":departures"] = {"N": str(current.departures)}
        update = {
            "TableName": self._table,
            "Key": {"chat_id": {"S": chat_id}},
            "UpdateExpression": "SET sequence_counter = :next, updated_at = :now",
            "ConditionExpression": _SOME_LEFT if current.departures else _NOBODY_LEFT,
            "ExpressionAttributeValues": values,
        }
        return Write(ALLOCATE_SEQUENCE, {"Update": update})
