"""The table `delivery_state`: how far each member has received and read each chat. Neither mark moves back."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from delivery.domain import Mark, Marks, Pair, Watermark
from delivery.models import DeliveryStateModel
from foundation.kernel.clock import from_iso, to_iso
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import AccessPattern, AsyncDatabase, BatchResult, Consistency, Key, Operation
from foundation.stores.dynamodb.table import RawItem
from foundation.stores.errors import ConditionFailed

GET_DELIVERY_STATES = AccessPattern(
    "Get delivery states",
    DeliveryStateModel,
    Operation.BATCH_GET,
    key="user_id, chat_id",
    consistency=Consistency.EVENTUAL,
)
GET_DELIVERY_STATE = AccessPattern(
    "Get delivery state",
    DeliveryStateModel,
    Operation.GET,
    key="user_id, chat_id",
    consistency=Consistency.EVENTUAL,
)
LIST_DELIVERY_STATES = AccessPattern(
    "List delivery states of a user",
    DeliveryStateModel,
    Operation.QUERY,
    key="user_id",
    consistency=Consistency.EVENTUAL,
)
ERASE_DELIVERY_STATES = AccessPattern(
    "Erase delivery states of a user", DeliveryStateModel, Operation.BATCH_DELETE, key="user_id, chat_id"
)
UPDATE_WATERMARK = AccessPattern(
    "Update watermark",
    DeliveryStateModel,
    Operation.UPDATE,
    key="user_id, chat_id",
    condition="attribute_not_exists(last_acked_sequence) OR last_acked_sequence < :sequence",
)
UPDATE_READ_MARK = AccessPattern(
    "Update read mark",
    DeliveryStateModel,
    Operation.UPDATE,
    key="user_id, chat_id",
    condition="attribute_not_exists(last_read_sequence) OR last_read_sequence < :sequence",
)
_UPDATES = {Mark.ACKED: UPDATE_WATERMARK, Mark.READ: UPDATE_READ_MARK}


class WatermarkStore:
    """Marks by user and chat, on the service loop."""

    def __init__(self, database: AsyncDatabase) -> None:
        self._database = database
        self._table = database.table_name(DeliveryStateModel)

    def lookup(self, pairs: Iterable[Pair]) -> dict[AccessPattern[Any], list[Key]]:
        """The keys for a `batch_get` that also reads other tables."""
        return {GET_DELIVERY_STATES: list(pairs)}

    def found_in(self, result: BatchResult) -> dict[Pair, Marks]:
        """The marks in the result of that read; a pair of which nothing has arrived is absent."""
        items = result.raw(GET_DELIVERY_STATES).values()
        return {(UserId(item["user_id"]["S"]), ChatId(item["chat_id"]["S"])): _marks(item) for item in items}

    async def get(self, user_id: UserId, chat_id: ChatId) -> Marks:
        """Where the marks stand; 0 before the first."""
        item = await self._database.get(GET_DELIVERY_STATE, user_id, chat_id)
        return Marks() if item is None else _marks_of(item)

    async def list_of_user(self, user_id: UserId, *, limit: int, after: ChatId | None) -> tuple[list[Watermark], bool]:
        """A user's watermarks by chat id, and whether more follow."""
        position = None if after is None else {"user_id": user_id, "chat_id": after}
        page = await self._database.query(LIST_DELIVERY_STATES, user_id, limit=limit + 1, after=position)
        return [_watermark(item) for item in page.items[:limit]], len(page.items) > limit

    async def erase(self, user_id: UserId) -> None:
        """Delete all watermarks of a user. Not atomic; safe to repeat."""
        items = await self._database.query_all(LIST_DELIVERY_STATES, user_id)
        await self._database.batch_delete(ERASE_DELIVERY_STATES, [(user_id, item.chat_id) for item in items])

    async def advance(self, pair: Pair, mark: Mark, sequence: int, *, now: datetime, is_unread: bool = False) -> Marks:
        """Move one mark up to `sequence`, if it is not there or beyond already. Return what is stored then.

        Costs one write unit. `is_unread`: a read mark that does not exist becomes 0.
        """
        user_id, chat_id = pair
        pattern = _UPDATES[mark]
        # In DynamoDB's own form, which costs a fraction of the model's expressions.
        values = {":sequence": {"N": str(sequence)}, ":now": {"S": to_iso(now)}}
        expression = f"SET {mark} = :sequence, updated_at = :now"
        if is_unread:
            expression += f", {Mark.READ} = if_not_exists({Mark.READ}, :nothing)"
            values[":nothing"] = {"N": "0"}
        request = {
            "TableName": self._table,
            "Key": {"user_id": {"S": user_id}, "chat_id": {"S": chat_id}},
            "UpdateExpression": expression,
            "ConditionExpression": pattern.condition,
            "ExpressionAttributeValues": values,
            "ReturnValues": "ALL_NEW",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        try:
            return _marks(await self._database.update_raw(pattern, request))
        except ConditionFailed as error:
            # An engine that does not show the item has told this much.
            return _marks(error.item or {mark: {"N": str(sequence)}})


def _marks(item: RawItem) -> Marks:
    return Marks(acked=_number(item.get(Mark.ACKED)) or 0, read=_number(item.get(Mark.READ)))


def _number(value: dict[str, Any] | None) -> int | None:
    return None if value is None else int(value["N"])


def _marks_of(item: DeliveryStateModel) -> Marks:
    read = item.last_read_sequence
    return Marks(acked=int(item.last_acked_sequence or 0), read=None if read is None else int(read))


def _watermark(item: DeliveryStateModel) -> Watermark:
    return Watermark(chat_id=ChatId(item.chat_id), marks=_marks_of(item), updated_at=from_iso(item.updated_at))
