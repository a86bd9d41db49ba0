"""The inbox: a user's chats with their last message and unread count.

A page costs one query and three batched reads, whatever its size: chats with memberships and counters, watermarks,
last messages (each batch split by DynamoDB's limit of 100 keys).
"""

from dataclasses import dataclass

from chats.services.listing import ChatListing
from delivery.domain import InboxEntry
from delivery.stores.watermarks import WatermarkStore
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.ids import ChatId, UserId
from foundation.kernel.loops import ServiceLoop
from messaging.services.history import History

SCOPE = "inbox"


@dataclass(frozen=True, slots=True)
class InboxPage:
    entries: list[InboxEntry]
    next_cursor: str | None


class Inbox:
    """Lists a user's chats, the youngest chat first. The order does not change, so pages neither repeat nor skip."""

    def __init__(
        self,
        *,
        chats: ChatListing,
        history: History,
        watermarks: WatermarkStore,
        loop: ServiceLoop,
        cursors: CursorCodec,
    ) -> None:
        self._chats = chats
        self._history = history
        self._watermarks = watermarks
        self._loop = loop
        self._cursors = cursors

    def list_chats(self, user_id: UserId, *, limit: int, cursor: str | None) -> InboxPage:
        """A page may hold fewer chats than asked for; the list ends where there is no next cursor."""
        after = None
        if cursor is not None:
            after = ChatId(str(self._cursors.decode(cursor, scope=SCOPE, owner=user_id)["after"]))
        page = self._chats.list_chats(user_id, limit=limit, after=after)
        listed = {chat.state.chat.chat_id: chat for chat in page.chats}
        acked = self._watermarks.last_acked(user_id, listed) if listed else {}
        ends = {(chat_id, chat.state.last_sequence) for chat_id, chat in listed.items() if chat.state.last_sequence}
        messages = self._loop.run(self._history.messages_at(ends)) if ends else {}
        entries = [
            InboxEntry(chat, acked.get(chat_id, 0), messages.get((chat_id, chat.state.last_sequence)))
            for chat_id, chat in listed.items()
        ]
        return InboxPage(entries, next_cursor=page.after and self._next(page.after, user_id))

    def _next(self, after: ChatId, user_id: UserId) -> str:
        return self._cursors.encode({"after": after}, scope=SCOPE, owner=user_id)
