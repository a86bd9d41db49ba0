"""Everything of a person, as a ZIP of JSON: account, sessions, chats, marks, and the messages of each chat."""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import orjson

from accounts.domain import Session, User
from accounts.services.sessions import Sessions
from chats.domain import ListedChat
from delivery.domain import InboxEntry
from delivery.services.inbox import Inbox
from delivery.services.watermarks import Watermarks
from foundation.kernel.clock import to_iso
from foundation.kernel.ids import ChatId, SessionId, UserId
from foundation.kernel.loops import ServiceLoop
from messaging.domain import Message
from messaging.services.history import History, Window

PAGE = 100


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a person's data is."""

    sessions: Sessions
    inbox: Inbox
    history: History
    watermarks: Watermarks
    loop: ServiceLoop


class PersonExport:
    """Reads as the person, page after page: what a member cannot read is not exported."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def write(self, user: User, file: BinaryIO) -> None:
        """Messages of others in a chat are not this person's: only the person's own are exported."""
        chats = list(self.list_chats(user.user_id))
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            _add(archive, "account.json", describe_user(user))
            _add(archive, "sessions.json", [describe_session(each) for each in self.list_sessions(user.user_id)])
            _add(archive, "chats.json", [chat.to_json() for chat in chats])
            _add(archive, "marks.json", list(self._marks(user.user_id)))
            for chat in chats:
                chat_id = chat.state.chat.chat_id
                _add(
                    archive,
                    f"messages/{chat_id}.json",
                    [each.to_json() for each in self.own_messages(chat_id, user.user_id)],
                )

    def list_sessions(self, user_id: UserId) -> Iterator[Session]:
        after: SessionId | None = None
        while True:
            page, after = self._sources.sessions.list_sessions(user_id, limit=PAGE, after=after)
            yield from page
            if after is None:
                return

    def list_chats(self, user_id: UserId) -> Iterator[ListedChat]:
        return (entry.listed for entry in self.list_inbox(user_id))

    def list_inbox(self, user_id: UserId) -> Iterator[InboxEntry]:
        """The person's chats with their marks."""
        cursor: str | None = None
        while True:
            page = self._sources.loop.run(self._sources.inbox.list_chats(user_id, limit=PAGE, cursor=cursor))
            yield from page.entries
            cursor = page.next_cursor
            if cursor is None:
                return

    def _marks(self, user_id: UserId) -> Iterator[dict[str, Any]]:
        cursor: str | None = None
        while True:
            marks = self._sources.watermarks.list_watermarks(user_id, limit=PAGE, cursor=cursor)
            page = self._sources.loop.run(marks)
            yield from (mark.to_json() for mark in page.watermarks)
            cursor = page.next_cursor
            if cursor is None:
                return

    def own_messages(self, chat_id: ChatId, user_id: UserId) -> Iterator[Message]:
        """The entries of the chat that the person made."""
        after = 0
        while True:
            page = self._sources.loop.run(self._sources.history.page(chat_id, user_id, Window(after=after)))
            yield from (message for message in page.messages if message.sender_id == user_id)
            if not page.has_more:
                return
            after = page.messages[-1].sequence


def describe_user(user: User) -> dict[str, Any]:
    return {
        "user_id": user.user_id,
        "phone_number": user.phone_number,
        "phone_verified": user.phone_verified,
        "display_name": user.display_name,
        "created_at": to_iso(user.created_at),
        "updated_at": to_iso(user.updated_at),
        "suspended_at": None if user.suspended_at is None else to_iso(user.suspended_at),
    }


def describe_chat(entry: InboxEntry) -> dict[str, Any]:
    """Without the text of its last message, for which staff needs a reason."""
    return {**entry.listed.to_json(), **entry.marks.to_json(), "unread_count": entry.unread_count}


def describe_session(session: Session) -> dict[str, Any]:
    return {
        "session_id": session.session_id,
        "device_id": session.device_id,
        "created_at": to_iso(session.created_at),
        "expires_at": to_iso(session.expires_at),
    }


def _add(archive: zipfile.ZipFile, name: str, content: Any) -> None:
    archive.writestr(name, orjson.dumps(content, option=orjson.OPT_INDENT_2))
