"""Lists who reacted to a message, and a chat's pinned messages."""

from dataclasses import dataclass
from typing import Any

from chats.errors import ChatNotFound
from chats.services.posting import Posting
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.ids import ChatId, UserId, is_chat_id
from foundation.stores.dynamodb import AsyncDatabase
from messaging.domain import Kind, Message
from messaging.errors import MessageNotFound
from messaging.services.history import History
from messaging.stores.messages import MessageStore


@dataclass(frozen=True, slots=True)
class ReactionPage:
    """`reactions` are pairs of an emoji and a user."""

    reactions: list[tuple[str, UserId]]
    next_cursor: str | None

    def to_json(self) -> dict[str, Any]:
        items = [{"emoji": emoji, "user_id": user_id} for emoji, user_id in self.reactions]
        return {"items": items, "next_cursor": self.next_cursor}


class Annotations:
    """Reads for members, on one event loop. Raises `ChatNotFound` for others."""

    def __init__(
        self,
        *,
        database: AsyncDatabase,
        history: History,
        messages: MessageStore,
        posting: Posting,
        cursors: CursorCodec,
    ) -> None:
        self._database = database
        self._history = history
        self._messages = messages
        self._posting = posting
        self._cursors = cursors

    async def list_reactions(
        self, chat_id: ChatId, user_id: UserId, sequence: int, *, limit: int, cursor: str | None
    ) -> ReactionPage:
        """The reader's own first, then by emoji and user. Raises `MessageNotFound`."""
        message = await self._history.get_message(chat_id, user_id, sequence)
        if message.kind is not Kind.MESSAGE:
            raise MessageNotFound(f"The chat has no message with sequence {sequence}")
        places = sorted(
            (each != user_id, emoji, each) for emoji, users in (message.reactions or {}).items() for each in users
        )
        scope = f"reactions:{chat_id}:{sequence}"
        if cursor is not None:
            after = self._cursors.decode(cursor, scope=scope, owner=user_id)
            place_before = (after["user_id"] != user_id, str(after["emoji"]), str(after["user_id"]))
            places = [place for place in places if place > place_before]
        page, more = places[:limit], len(places) > limit
        reactions = [(emoji, each) for _, emoji, each in page]
        if not more:
            return ReactionPage(reactions, next_cursor=None)
        emoji, last = reactions[-1]
        position: dict[str, str | int] = {"emoji": emoji, "user_id": last}
        return ReactionPage(reactions, self._cursors.encode(position, scope=scope, owner=user_id))

    async def list_pins(self, chat_id: ChatId, user_id: UserId) -> list[Message]:
        """The pinned messages, newest pin first, without those that are deleted."""
        if not is_chat_id(chat_id):
            raise ChatNotFound
        pair = (chat_id, user_id)
        found = await self._database.batch_get(
            {**self._posting.membership_lookup([pair]), **self._posting.chat_lookup([chat_id])}
        )
        chat = self._posting.chats_among(found).get(chat_id)
        if chat is None or not self._posting.members_among(found, [pair]):
            raise ChatNotFound
        pinned = await self._messages.find_at((chat_id, sequence) for sequence in chat.pins) if chat.pins else {}
        in_order = (pinned.get((chat_id, sequence)) for sequence in chat.pins)
        return [message for message in in_order if message is not None and message.deleted_at is None]
