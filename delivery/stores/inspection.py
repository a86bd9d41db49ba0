"""The table `delivery_state` as it is, for operators' tools: items may be torn. Items are plain dictionaries."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from delivery.models import DeliveryStateModel
from foundation.kernel.clock import to_iso
from foundation.stores.dynamodb import AccessPattern, Consistency, Database, Operation
from foundation.stores.dynamodb.table import plain

INSPECT_MARKS = AccessPattern(
    "Inspect delivery states",
    DeliveryStateModel,
    Operation.BATCH_GET,
    key="user_id, chat_id",
    consistency=Consistency.STRONG,
)
LOWER_MARK = AccessPattern(
    "Lower a mark that is out of range",
    DeliveryStateModel,
    Operation.UPDATE,
    key="user_id, chat_id",
    condition="the mark = :seen",
)

Item = Mapping[str, Any]


class MarkInspection:
    """Marks by user and chat. Repairs are conditional on what was seen."""

    def __init__(self, database: Database) -> None:
        self._database = database.on_loop

    async def marks(self, pairs: Iterable[tuple[str, str]]) -> list[Item]:
        """The delivery states of these users and chats, strongly consistent."""
        found = await self._database.batch_get({INSPECT_MARKS: list(pairs)})
        return [plain(raw) for raw in found.raw(INSPECT_MARKS).values()]

    async def lower(self, mark: Item, attribute: str, *, to: int, now: datetime) -> None:
        """Set a mark to the chat's latest sequence. Raises `ConditionFailed` if it has moved."""
        column = getattr(DeliveryStateModel, attribute)
        actions = [column.set(to), DeliveryStateModel.updated_at.set(to_iso(now))]
        place = (str(mark["user_id"]), str(mark["chat_id"]))
        await self._database.update(LOWER_MARK, place, actions, column == mark[attribute])
