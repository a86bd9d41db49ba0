"""The table `chats`: type and name of each chat, and the claims that make direct chats unique.

A claim is an item `direct#<smaller user_id>#<larger user_id>` that references the chat of the two users.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from chats.domain import Chat, ChatType
from chats.models import ChatModel
from foundation.kernel.clock import from_iso, to_iso
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import (
    AccessPattern,
    BatchResult,
    Consistency,
    Database,
    Key,
    Operation,
    Write,
    plain,
)

GET_CHAT = AccessPattern("Get chat metadata", ChatModel, Operation.GET, key="chat_id", consistency=Consistency.EVENTUAL)
CONFIRM_CHAT_UNKNOWN = AccessPattern(
    "Confirm that a chat is unknown", ChatModel, Operation.GET, key="chat_id", consistency=Consistency.STRONG
)
GET_CHATS = AccessPattern(
    "Get metadata of chats", ChatModel, Operation.BATCH_GET, key="chat_id", consistency=Consistency.EVENTUAL
)
FIND_DIRECT_CHAT = AccessPattern(
    "Find direct chat",
    ChatModel,
    Operation.GET,
    key="chat_id = direct#<user_id>#<user_id>",
    consistency=Consistency.STRONG,
)
CLAIM_DIRECT_CHAT = AccessPattern(
    "Claim direct chat",
    ChatModel,
    Operation.TRANSACT_PUT,
    key="chat_id = direct#<user_id>#<user_id>",
    condition="attribute_not_exists(chat_id)",
)
CREATE_CHAT = AccessPattern(
    "Create chat", ChatModel, Operation.TRANSACT_PUT, key="chat_id", condition="attribute_not_exists(chat_id)"
)
GET_CURRENT_CHATS = AccessPattern(
    "Get current chats", ChatModel, Operation.BATCH_GET, key="chat_id", consistency=Consistency.STRONG
)
RENAME_CHAT = AccessPattern(
    "Rename chat", ChatModel, Operation.TRANSACT_UPDATE, key="chat_id", condition="attribute_exists(chat_id)"
)
SET_PINS = AccessPattern("Set pins", ChatModel, Operation.TRANSACT_UPDATE, key="chat_id", condition="pins = :seen")


class ChatStore:
    """Chats by id, and direct chats by their two members."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, chat_id: ChatId) -> Chat | None:
        """Read eventually consistent: the name may be stale. A miss is repeated with a strongly consistent read."""
        item = self._database.get(GET_CHAT, chat_id) or self._database.get(CONFIRM_CHAT_UNKNOWN, chat_id)
        return None if item is None else _chat(item.attribute_values)

    def lookup(self, chat_ids: Iterable[ChatId]) -> dict[AccessPattern[ChatModel], list[Key]]:
        """The keys for a `batch_get` that also reads other tables."""
        return {GET_CHATS: [(chat_id,) for chat_id in chat_ids]}

    def found_in(self, result: BatchResult) -> dict[ChatId, Chat]:
        """The chats in the result of a `batch_get` with the keys of `lookup`."""
        chats = [_chat(plain(item)) for item in result.raw(GET_CHATS).values()]
        return {chat.chat_id: chat for chat in chats}

    def current_lookup(self, chat_ids: Iterable[ChatId]) -> dict[AccessPattern[ChatModel], list[Key]]:
        """Like `lookup`, for chats that are read strongly consistent."""
        return {GET_CURRENT_CHATS: [(chat_id,) for chat_id in chat_ids]}

    def current_in(self, result: BatchResult) -> dict[ChatId, Chat]:
        """The chats in the result of a `batch_get` with the keys of `current_lookup`."""
        return {chat.chat_id: chat for chat in (_chat(plain(item)) for item in result.raw(GET_CURRENT_CHATS).values())}

    def find_direct(self, one: UserId, other: UserId) -> ChatId | None:
        """The direct chat of two users, in any order."""
        claim = self._database.get(FIND_DIRECT_CHAT, direct_claim_id(one, other))
        return None if claim is None else ChatId(str(claim.direct_chat_id))

    def claiming_direct(self, chat_id: ChatId, one: UserId, other: UserId) -> Write:
        """Fails if the two users have a direct chat."""
        claim = ChatModel(chat_id=direct_claim_id(one, other), direct_chat_id=chat_id)
        return self._database.putting(CLAIM_DIRECT_CHAT, claim, ChatModel.chat_id.does_not_exist())

    def creating(self, chat: Chat) -> Write:
        item = ChatModel(
            chat_id=chat.chat_id,
            chat_type=str(chat.type),
            name=chat.name,
            created_by=chat.created_by,
            created_at=to_iso(chat.created_at),
            updated_at=to_iso(chat.updated_at),
        )
        return self._database.putting(CREATE_CHAT, item, ChatModel.chat_id.does_not_exist())

    def renaming(self, chat_id: ChatId, name: str, *, now: datetime) -> Write:
        """Fails if the chat does not exist."""
        actions = [ChatModel.name.set(name), ChatModel.updated_at.set(to_iso(now))]
        return self._database.updating(RENAME_CHAT, (chat_id,), actions, ChatModel.chat_id.exists())

    def pinning(self, seen: Chat, pins: Sequence[int]) -> Write:
        """Sets the pins. Fails if they have changed since they were read."""
        condition = ChatModel.pins == list(seen.pins) if seen.pins else ChatModel.pins.does_not_exist()
        action = ChatModel.pins.set(list(pins)) if pins else ChatModel.pins.remove()
        return self._database.updating(SET_PINS, (seen.chat_id,), [action], condition)


def direct_claim_id(one: UserId, other: UserId) -> str:
    return "#".join(("direct", *sorted((one, other))))


def _chat(values: Mapping[str, Any]) -> Chat:
    return Chat(
        chat_id=ChatId(values["chat_id"]),
        type=ChatType(values["chat_type"]),
        name=values.get("name"),
        created_by=UserId(values["created_by"]),
        created_at=from_iso(values["created_at"]),
        updated_at=from_iso(values["updated_at"]),
        pins=tuple(map(int, values.get("pins") or ())),
    )
