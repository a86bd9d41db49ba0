"""The table `chat_counters`: the latest sequence of each chat, and what is counted with it.

A counter is created in the transaction of its chat, so a strongly consistent read of it tells whether the chat exists.
The transaction that ends a membership increments `departures`: as long as it is unchanged, all who were members still
are (ADR-019).
"""

from datetime import datetime
from typing import Any

from chats.domain import CounterState
from chats.models import CounterModel
from foundation.kernel.clock import to_iso
from foundation.kernel.ids import ChatId
from foundation.stores.dynamodb import AccessPattern, BatchResult, Consistency, Database, Operation, Write

_SAME_DEPARTURES = "sequence_counter = :current AND departures = :departures"
_NO_DEPARTURES = "sequence_counter = :current AND attribute_not_exists(departures)"

ALLOCATE_SEQUENCE = AccessPattern(
    "Allocate sequence", CounterModel, Operation.TRANSACT_UPDATE, key="chat_id", condition=_SAME_DEPARTURES
)
COUNT_DEPARTURE = AccessPattern(
    "Count departure", CounterModel, Operation.TRANSACT_UPDATE, key="chat_id", condition="attribute_exists(chat_id)"
)
COUNT_LOST_MEMBER = AccessPattern(
    "Count lost member", CounterModel, Operation.TRANSACT_UPDATE, key="chat_id", condition="attribute_exists(members)"
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

    def found_in(self, result: BatchResult) -> dict[ChatId, int]:
        """The latest sequences in the result of a `batch_get`."""
        return {chat_id: state.sequence for chat_id, state in self.states_in(result).items()}

    def states_in(self, result: BatchResult) -> dict[ChatId, CounterState]:
        """The counters in the result of a `batch_get`."""
        items = result.raw(GET_LATEST_SEQUENCES).values()
        return {ChatId(item["chat_id"]["S"]): _state(item) for item in items}

    def creating(self, chat_id: ChatId, *, members: int, now: datetime) -> Write:
        """Creates the counter at 0."""
        item = CounterModel(
            chat_id=chat_id, sequence_counter=0, members=members, created_at=to_iso(now), updated_at=to_iso(now)
        )
        return self._database.putting(CREATE_COUNTER, item, CounterModel.chat_id.does_not_exist())

    def counting_departure(self, chat_id: ChatId) -> Write:
        """Increments `departures`."""
        departures = CounterModel.departures
        exists = CounterModel.chat_id.exists()
        return self._database.updating(COUNT_DEPARTURE, (chat_id,), [departures.add(1)], exists)

    def counting_lost_member(self, chat_id: ChatId) -> Write:
        """Increments `departures` and decrements `members`. Fails if the chat is older than this count."""
        counted = [CounterModel.departures.add(1), CounterModel.members.add(-1)]
        return self._database.updating(COUNT_LOST_MEMBER, (chat_id,), counted, CounterModel.members.exists())

    def moving(self, chat_id: ChatId, *, current: CounterState, after: CounterState, now: datetime) -> Write:
        """Moves the counter. Fails if sequence or departures differ from `current`."""
        values = {
            ":next": {"N": str(after.sequence)},
            ":now": {"S": to_iso(now)},
            ":current": {"N": str(current.sequence)},
        }
        if current.departures:
            values[":departures"] = {"N": str(current.departures)}
        actions, names = "SET sequence_counter = :next, updated_at = :now", {}
        if after.others != current.others:
            for name in _COUNTED:
                if (value := getattr(after, name)) != getattr(current, name):
                    actions += f", #{name} = :next_{name}"
                    names[f"#{name}"] = name
                    values[f":next_{name}"] = {"N": str(value)}
        update = {
            "TableName": self._table,
            "Key": {"chat_id": {"S": chat_id}},
            "UpdateExpression": actions,
            "ConditionExpression": _SAME_DEPARTURES if current.departures else _NO_DEPARTURES,
            "ExpressionAttributeValues": values,
        }
        if names:
            update["ExpressionAttributeNames"] = names
        return Write(ALLOCATE_SEQUENCE, {"Update": update})


_COUNTED = ("departures", "others", "last_other", "last_message", "members")


def _state(item: dict[str, Any]) -> CounterState:
    sequence = int(item["sequence_counter"]["N"])
    counted = {name: int(item[name]["N"]) for name in _COUNTED if name in item}
    return CounterState(sequence, **counted)
