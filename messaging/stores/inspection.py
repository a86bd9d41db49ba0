"""The tables `messages` and `idempotency_keys` as they are, for operators' tools: items may be torn.

Items are plain dictionaries, because a check must not stumble over what it is to find.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from foundation.kernel.clock import is_iso
from foundation.kernel.ids import ChatId
from foundation.stores.dynamodb import AccessPattern, Consistency, Database, Key, Operation
from foundation.stores.dynamodb.table import plain
from messaging.models import IdempotencyKeyModel, MessageModel

INSPECT_MESSAGES = AccessPattern(
    "Inspect messages",
    MessageModel,
    Operation.QUERY,
    key="chat_id, sequence (either direction)",
    consistency=Consistency.STRONG,
)
INSPECT_MESSAGES_AT = AccessPattern(
    "Inspect messages by place",
    MessageModel,
    Operation.BATCH_GET,
    key="chat_id, sequence",
    consistency=Consistency.STRONG,
)
CORRECT_OTHERS = AccessPattern(
    "Correct count of other entries",
    MessageModel,
    Operation.UPDATE,
    key="chat_id, sequence",
    condition="others = :seen",
)
INSPECT_KEYS = AccessPattern(
    "Inspect keys of a chat", IdempotencyKeyModel, Operation.QUERY, key="chat_id", consistency=Consistency.STRONG
)
RESTORE_KEY = AccessPattern(
    "Restore key",
    IdempotencyKeyModel,
    Operation.PUT,
    key="chat_id, client_message_id",
    condition="attribute_not_exists(chat_id)",
)
DROP_KEY = AccessPattern(
    "Drop key",
    IdempotencyKeyModel,
    Operation.DELETE,
    key="chat_id, client_message_id",
    condition="message_id = :seen",
)

PAGE = 200
REQUIRED = ("message_id", "sender_id", "client_message_id", "content", "content_type", "created_at")
"""What every entry has besides its key. An item that lacks one, or whose time is none, is torn."""

Item = Mapping[str, Any]


def is_torn(entry: Item) -> bool:
    return not (all(isinstance(entry.get(name), str) for name in REQUIRED) and is_iso(entry["created_at"]))


class LogInspection:
    """A chat's entries and keys. Reads are strongly consistent; repairs are conditional on what was seen."""

    def __init__(self, database: Database) -> None:
        self._database = database.on_loop

    async def entries(self, chat_id: ChatId, *, newest_first: bool = False) -> AsyncIterator[list[Item]]:
        """All entries of a chat, page by page."""
        after: dict[str, str | int] | None = None
        while True:
            page = await self._database.query_raw(
                INSPECT_MESSAGES, chat_id, limit=PAGE, forward=not newest_first, after=after
            )
            items: list[Item] = [plain(raw) for raw in page.items]
            if items:
                yield items
                after = {"chat_id": chat_id, "sequence": items[-1]["sequence"]}
            if not page.more:
                return

    async def entries_at(self, chat_id: ChatId, sequences: Iterable[int]) -> list[Item]:
        """The entries with these sequences, as far as they exist."""
        places: list[Key] = [(chat_id, sequence) for sequence in sequences]
        found = await self._database.batch_get({INSPECT_MESSAGES_AT: places})
        return [plain(raw) for raw in found.raw(INSPECT_MESSAGES_AT).values()]

    async def keys(self, chat_id: ChatId) -> AsyncIterator[list[Item]]:
        """All idempotency keys of a chat, page by page. They expire after a week."""
        after: dict[str, str | int] | None = None
        while True:
            page = await self._database.query_raw(INSPECT_KEYS, chat_id, limit=PAGE, after=after)
            items: list[Item] = [plain(raw) for raw in page.items]
            if items:
                yield items
                after = {"chat_id": chat_id, "client_message_id": items[-1]["client_message_id"]}
            if not page.more:
                return

    async def correct_others(self, chat_id: ChatId, sequence: int, *, seen: int | None, to: int) -> None:
        """How many entries so far are no messages. Raises `ConditionFailed` if it has been corrected meanwhile."""
        others = MessageModel.others
        condition = others.does_not_exist() & MessageModel.chat_id.exists() if seen is None else others == seen
        await self._database.update(CORRECT_OTHERS, (chat_id, sequence), [others.set(to)], condition)

    async def restore_key(self, entry: Item, *, ttl: int) -> None:
        """Write the key that an entry should have. Raises `ConditionFailed` if there is one."""
        item = IdempotencyKeyModel(
            chat_id=entry["chat_id"],
            client_message_id=entry["client_message_id"],
            message_id=entry["message_id"],
            sequence=entry["sequence"],
            created_at=entry["created_at"],
            ttl=ttl,
        )
        await self._database.put(RESTORE_KEY, item, IdempotencyKeyModel.chat_id.does_not_exist())

    async def drop_key(self, key: Item) -> None:
        """Delete a key that leads to no message. Raises `ConditionFailed` if it has changed."""
        place = (str(key["chat_id"]), str(key["client_message_id"]))
        message_id = key.get("message_id")
        seen = IdempotencyKeyModel.message_id
        condition = seen.does_not_exist() if message_id is None else seen == message_id
        await self._database.delete(DROP_KEY, place, condition)
