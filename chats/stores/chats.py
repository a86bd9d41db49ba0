"""The table `chats`: type and name of each chat, and the claims that make direct chats unique.

A claim is an item `direct#<smaller user_id>#<larger user_id>` that references the chat of the two users.
"""

from collections.abc import Iterable
from datetime import datetime

from chats.domain import Chat, ChatType
from chats.models import ChatModel
from foundation.kernel.clock import from_iso, to_iso
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import AccessPattern, BatchResult, Consistency, Database, Key, Operation, Write

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
RENAME_CHAT = AccessPattern(
    "Rename chat", ChatModel, Operation.UPDATE, key="chat_id", condition="attribute_exists(chat_id)"
)


class ChatStore:
    """Chats by id, and direct chats by their two members."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, chat_id: ChatId) -> Chat | None:
        """Read eventually consistent: the name may be stale. A miss is repeated with a strongly consistent read."""
        item = self._database.get(GET_CHAT, chat_id) or self._database.get(CONFIRM_CHAT_UNKNOWN, chat_id)
        return None if item is None else _chat(item)

    def lookup(self, chat_ids: Iterable[ChatId]) -> dict[AccessPattern[ChatModel], list[Key]]:
        """The keys for a `batch_get` that also reads other tables."""
        return {GET_CHATS: [(chat_id,) for chat_id in chat_ids]}

    def found_in(self, result: BatchResult) -> dict[ChatId, Chat]:
        """The chats in the result of a `batch_get` with the keys of `lookup`."""
        return {chat.chat_id: chat for chat in map(_chat, result.of(GET_CHATS).values())}

    def find_direct(self, one: UserId, other: UserId) -> ChatId | None:
        """The direct chat of two users, in any order."""
        claim = self._database.get(FIND_DIRECT_CHAT, _claim_id(one, other))
        return None if claim is None else ChatId(str(claim.direct_chat_id))

    def claiming_direct(self, chat_id: ChatId, one: UserId, other: UserId) -> Write:
        """Fails if the two users have a direct chat."""
        claim = ChatModel(chat_id=_claim_id(one, other), direct_chat_id=chat_id)
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

    def rename(self, chat_id: ChatId, name: str, *, now: datetime) -> Chat:
        """Raises `ConditionFailed` if the chat does not exist."""
        actions = [ChatModel.name.set(name), ChatModel.updated_at.set(to_iso(now))]
        return _chat(self._database.update(RENAME_CHAT, (chat_id,), actions, ChatModel.chat_id.exists()))


def _claim_id(one: UserId, other: UserId) -> str:
    return "#".join(("direct", *sorted((one, other))))


def _chat(item: ChatModel) -> Chat:
    return Chat(
        chat_id=ChatId(item.chat_id),
        type=ChatType(str(item.chat_type)),
        name=item.name,
        created_by=UserId(str(item.created_by)),
        created_at=from_iso(str(item.created_at)),
        updated_at=from_iso(str(item.updated_at)),
    )
