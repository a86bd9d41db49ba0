"""The table `delivery_state`: up to which sequence each member has received each chat. Never moves back."""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime

from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from delivery.domain import Watermark
from delivery.models import DeliveryStateModel
from foundation.kernel.clock import from_iso, to_iso
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import AccessPattern, Consistency, Database, Operation, Write
from foundation.stores.errors import ConditionFailed, TransactionCancelled, TransactionConflict

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
UPDATE_WATERMARKS = AccessPattern(
    "Update watermarks together",
    DeliveryStateModel,
    Operation.TRANSACT_UPDATE,
    key="user_id, chat_id",
    condition="attribute_not_exists(last_acked_sequence) OR last_acked_sequence < :sequence",
)
UPDATE_WATERMARK = AccessPattern(
    "Update watermark",
    DeliveryStateModel,
    Operation.UPDATE,
    key="user_id, chat_id",
    condition="attribute_not_exists(last_acked_sequence) OR last_acked_sequence < :sequence",
)


class WatermarkStore:
    """Watermarks by user and chat."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._table = database.table_name(DeliveryStateModel)

    def last_acked(self, user_id: UserId, chat_ids: Iterable[ChatId]) -> dict[ChatId, int]:
        """The watermarks of these chats; a chat of which nothing has arrived is absent."""
        keys = [(user_id, chat_id) for chat_id in chat_ids]
        found = self._database.batch_get({GET_DELIVERY_STATES: keys}).of(GET_DELIVERY_STATES)
        return {ChatId(item.chat_id): int(item.last_acked_sequence) for item in found.values()}

    def get(self, user_id: UserId, chat_id: ChatId) -> int:
        """Where the watermark stands; 0 before the first acknowledgement."""
        item = self._database.get(GET_DELIVERY_STATE, user_id, chat_id)
        return 0 if item is None else int(item.last_acked_sequence)

    def list_of_user(self, user_id: UserId, *, limit: int, after: ChatId | None) -> tuple[list[Watermark], bool]:
        """A user's watermarks by chat id, and whether more follow."""
        position = None if after is None else {"user_id": user_id, "chat_id": after}
        page = self._database.query(LIST_DELIVERY_STATES, user_id, limit=limit + 1, after=position)
        return [_watermark(item) for item in page.items[:limit]], len(page.items) > limit

    async def advance_many(self, watermarks: Mapping[tuple[UserId, ChatId], int], *, now: datetime) -> None:
        """Move many watermarks in one transaction, without those that stand there or further already.

        Watermarks that another write keeps busy are moved one by one.
        """
        waiting = dict(watermarks)
        while waiting:
            writes = [self._advancing(pair, sequence, now) for pair, sequence in waiting.items()]
            try:
                await self._database.on_loop.transact_once(writes)
            except TransactionCancelled as error:
                behind = [
                    pair
                    for pair, reason in zip(waiting, error.reasons, strict=True)
                    if reason is None or not reason.is_condition
                ]
                if len(behind) == len(waiting):
                    break
                waiting = {pair: waiting[pair] for pair in behind}
            except TransactionConflict:
                break
            else:
                return
        await asyncio.gather(
            *[self._advance(user_id, chat_id, sequence, now) for (user_id, chat_id), sequence in waiting.items()]
        )

    def _advancing(self, pair: tuple[UserId, ChatId], sequence: int, now: datetime) -> Write:
        """In DynamoDB's own form, which costs a fraction of the model's expressions."""
        update = {
            "TableName": self._table,
            "Key": {"user_id": {"S": pair[0]}, "chat_id": {"S": pair[1]}},
            "UpdateExpression": "SET last_acked_sequence = :sequence, updated_at = :now",
            "ConditionExpression": UPDATE_WATERMARKS.condition,
            "ExpressionAttributeValues": {":sequence": {"N": str(sequence)}, ":now": {"S": to_iso(now)}},
        }
        return Write(UPDATE_WATERMARKS, {"Update": update})

    def advance(self, user_id: UserId, chat_id: ChatId, sequence: int, *, now: datetime) -> bool:
        """Move the watermark up to `sequence`; False when it stands there or beyond already."""
        return self._database.loop.run(self._advance(user_id, chat_id, sequence, now))

    async def _advance(self, user_id: UserId, chat_id: ChatId, sequence: int, now: datetime) -> bool:
        try:
            await self._database.on_loop.update(UPDATE_WATERMARK, (user_id, chat_id), *_moving(sequence, now))
        except ConditionFailed:
            return False
        return True


def _moving(sequence: int, now: datetime) -> tuple[list[Action], Condition]:
    """What moves a watermark, and the condition that it never moves back."""
    watermark = DeliveryStateModel.last_acked_sequence
    actions: list[Action] = [watermark.set(sequence), DeliveryStateModel.updated_at.set(to_iso(now))]
    return actions, watermark.does_not_exist() | (watermark < sequence)


def _watermark(item: DeliveryStateModel) -> Watermark:
    return Watermark(
        chat_id=ChatId(item.chat_id),
        last_acked_sequence=int(item.last_acked_sequence),
        updated_at=from_iso(item.updated_at),
    )
