"""The inbox: a user's chats with their last message and unread count.

A page costs one query and two batched reads, whatever its size: chats with memberships, counters and watermarks, then
last messages (each batch split by DynamoDB's limit of 100 keys). Only messages are unread: the counter and every entry
hold how many entries up to there are none (`others`), so the entry at a user's mark tells how many were read. Behind
the last entry that is no message, the counter alone tells.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from chats.domain import ListedChat
from chats.services.listing import ChatListing
from delivery.domain import InboxEntry, Marks
from delivery.stores.watermarks import WatermarkStore
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import AsyncDatabase
from messaging.domain import Message
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
        database: AsyncDatabase,
        chats: ChatListing,
        history: History,
        watermarks: WatermarkStore,
        cursors: CursorCodec,
    ) -> None:
        self._database = database
        self._chats = chats
        self._history = history
        self._watermarks = watermarks
        self._cursors = cursors

    async def list_chats(self, user_id: UserId, *, limit: int, cursor: str | None) -> InboxPage:
        """A page may hold fewer chats than asked for; the list ends where there is no next cursor."""
        after = None
        if cursor is not None:
            after = ChatId(str(self._cursors.decode(cursor, scope=SCOPE, owner=user_id)["after"]))
        page = await self._chats.list_chat_ids(user_id, limit=limit, after=after)
        entries = await self._read(user_id, page.chat_ids) if page.chat_ids else []
        return InboxPage(entries, next_cursor=page.after and self._next(page.after, user_id))

    async def _read(self, user_id: UserId, chat_ids: list[ChatId]) -> list[InboxEntry]:
        found = await self._database.batch_get(
            {
                **self._chats.lookup(user_id, chat_ids),
                **self._watermarks.lookup((user_id, chat_id) for chat_id in chat_ids),
            }
        )
        listed, found_marks = self._chats.found_in(found, user_id, chat_ids), self._watermarks.found_in(found)
        marks = {chat_id: found_marks.get((user_id, chat_id), Marks()) for chat_id in listed}
        read = {chat_id: _mark(chat, marks[chat_id]) for chat_id, chat in listed.items()}
        ends = {(chat_id, chat.counter.latest_message) for chat_id, chat in listed.items()}
        passed = {(chat_id, mark) for chat_id, mark in read.items() if _is_before_others(listed[chat_id], mark)}
        messages = await self._history.messages_at(place for place in ends | passed if place[1])
        return [
            InboxEntry(
                listed=chat,
                marks=marks[chat_id],
                last_message=messages.get((chat_id, chat.counter.latest_message)),
                unread_after=read[chat_id],
                unread_count=_unread(chat, read[chat_id], messages),
            )
            for chat_id, chat in listed.items()
        ]

    def _next(self, after: ChatId, user_id: UserId) -> str:
        return self._cursors.encode({"after": after}, scope=SCOPE, owner=user_id)


def _mark(chat: ListedChat, marks: Marks) -> int:
    """Up to where nothing is unread. Newcomers have nothing unread from before they joined."""
    return max(marks.unread_after, chat.membership.joined_sequence)


def _is_before_others(chat: ListedChat, mark: int) -> bool:
    """Whether the entry at the mark is needed: not all entries behind it are messages."""
    return mark < chat.counter.last_other


def _unread(chat: ListedChat, mark: int, messages: Mapping[tuple[ChatId, int], Message]) -> int:
    if not _is_before_others(chat, mark):
        return max(0, chat.counter.sequence - mark)
    passed = messages.get((chat.state.chat.chat_id, mark))
    others = 0 if passed is None else passed.others
    return max(0, chat.counter.messages - (mark - others))
