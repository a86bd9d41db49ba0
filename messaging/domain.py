"""Entries of a chat's log, the drafts that become entries, the answer to a sender, and the event of a stored entry."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import orjson
import regex

from chats.domain import Command
from foundation.kernel.events import ORIGIN_HEADER, Event
from foundation.kernel.ids import ChatId, ConnectionId, EventId, MessageId, UserId, is_user_id
from foundation.kernel.tracing import TRACEPARENT_HEADER
from foundation.stores.kafka.producer import Outgoing
from messaging.errors import ContentTooLarge, InvalidDraft

MAX_CONTENT_BYTES = 4096
TEXT = "text/plain"
CONTENT_TYPES = (TEXT,)
MAX_PAGE = 100
MAX_MENTIONS = 50
MAX_EMOJI_BYTES = 32
MAX_EMOJI = 20
"""Different emoji on one message."""
MAX_REACTIONS = 1000
"""Reactions to one message, of all emoji."""
SHOWN_REACTORS = 20
# The largest whole number that every JSON reader keeps exactly.
MAX_SEQUENCE = 2**53 - 1

_CLIENT_MESSAGE_ID = re.compile(r"[!-~]{1,128}")
# One grapheme that is neither blank nor a control character, nor the replacement character: servers decode bytes of a
# path that are not UTF-8 to it.
_EMOJI = regex.compile(r"(?![\p{Cc}\p{Cf}\p{Z}\uFFFD])\X")


class Kind(StrEnum):
    """What an entry of a chat's log is."""

    MESSAGE = "message"
    EDIT = "edit"
    DELETION = "deletion"
    REACTION = "reaction"
    PIN = "pin"
    NOTICE = "notice"


class Action(StrEnum):
    """What a reaction or a pin does."""

    ADD = "add"
    REMOVE = "remove"


Reactions = Mapping[str, frozenset[UserId]]
"""Who reacted to a message, by emoji."""


@dataclass(frozen=True, slots=True)
class Message:
    """An entry of a chat's log: a message, unless `kind` says otherwise. A message is as it stands, changes included.

    A `kind` or `action` of a later version is kept as its text. `others` counts the entries up to this one that are no
    messages. `last_change` is the sequence of the last entry that changed the message. Times are ISO 8601 text: no code
    computes with them.
    """

    message_id: MessageId
    chat_id: ChatId
    sequence: int
    sender_id: UserId
    client_message_id: str
    content: str
    content_type: str
    created_at: str
    others: int = 0
    kind: Kind | str = Kind.MESSAGE
    reply_to: int | None = None
    mentions: tuple[UserId, ...] = ()
    edited_at: str | None = None
    deleted_at: str | None = None
    last_change: int | None = None
    reactions: Reactions | None = None
    target: int | None = None
    emoji: str | None = None
    action: Action | str | None = None
    notice: Mapping[str, Any] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether this is a message without replies, mentions and changes."""
        return self.kind is Kind.MESSAGE and self.last_change is None and self.reply_to is None and not self.mentions

    def to_json(self) -> dict[str, Any]:
        """The form of REST, frames and events alike. Absent fields mean none."""
        fields = {
            "message_id": self.message_id,
            "chat_id": self.chat_id,
            "sequence": self.sequence,
            "sender_id": self.sender_id,
            "client_message_id": self.client_message_id,
            "kind": self.kind,
            "content": self.content,
            "content_type": self.content_type,
            "created_at": self.created_at,
        }
        if self.is_plain:
            return fields
        return fields | {name: value for name in _OPTIONAL if (value := getattr(self, name))} | self._shown_reactions()

    def _shown_reactions(self) -> dict[str, Any]:
        if not self.reactions:
            return {}
        return {
            "reactions": [
                {"emoji": emoji, "count": len(user_ids), "user_ids": sorted(user_ids)[:SHOWN_REACTORS]}
                for emoji, user_ids in sorted(self.reactions.items())
            ]
        }

    def filled_from(self, target: "Message | None") -> "Message":
        """A stored edit with the text of its target as it stands: the text lives in the target alone."""
        if target is None or target.deleted_at is not None:
            return self
        return replace(self, content=target.content, mentions=target.mentions)


_OPTIONAL = (
    "reply_to", "mentions", "edited_at", "deleted_at", "last_change", "target", "emoji", "action", "notice",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Draft:
    """What a sender submits: plain data. `origin` is the connection it came through, which needs no copy back.

    Without a `client_message_id` the draft cannot be repeated safely by its sender; the committer gives it one.
    `traceparent` is the sender's own trace of it, which changes nothing of what is stored.
    `by_staff`: a deletion that is none of the sender's. The sender need be no member, and no limit applies. No edge
    sets it.
    """

    chat_id: ChatId
    sender_id: UserId
    client_message_id: str
    content: str = ""
    content_type: str = TEXT
    origin: ConnectionId | None = None
    kind: Kind = Kind.MESSAGE
    reply_to: int | None = None
    mentions: tuple[UserId, ...] = ()
    target: int | None = None
    emoji: str | None = None
    action: Action | None = None
    command: Command | None = None
    traceparent: str | None = None
    by_staff: bool = False

    @property
    def is_folded(self) -> bool:
        """Whether the draft depends on the chat as it stands, so that it is judged when its transaction is built."""
        return self.kind is not Kind.MESSAGE or self.reply_to is not None

    @property
    def needs_read(self) -> bool:
        """Whether the draft always reads what it depends on, while its chat is in no transaction."""
        return self.kind is not Kind.MESSAGE

    @property
    def may_change_members(self) -> bool:
        """Whether it may change who is a member: drafts behind it are read after it is stored."""
        return self.kind is Kind.NOTICE

    @property
    def extra_items(self) -> int:
        """Items that the draft reads or writes at most, besides its entry, its key and its target."""
        return _EXTRA_ITEMS.get(self.kind, 0)

    @property
    def digest(self) -> str:
        """Equal for a draft and its repetition; stored with the idempotency key."""
        command = None if self.command is None else self.command.to_json()
        fields = (
            self.sender_id, self.kind, self.content, self.content_type, self.reply_to, self.mentions,
            self.target, self.emoji, self.action, command,
        )  # fmt: skip
        return blake2b(orjson.dumps(fields), digest_size=16).hexdigest()

    def require_valid(self) -> None:
        """Raises `ContentTooLarge` or `InvalidDraft`, which name the field."""
        if self.client_message_id or self.kind in _NEED_CLIENT_ID:
            _require_client_message_id(self.client_message_id)
        if self.by_staff and self.kind is not Kind.DELETION:
            raise _invalid("kind", "Staff only deletes.")
        if self.content_type not in CONTENT_TYPES:
            raise _invalid("content_type", f"Must be one of: {', '.join(CONTENT_TYPES)}.")
        if self.kind in _NEED_CLIENT_ID:
            _require_content(self.content)
        if self.mentions:
            _require_mentions(self.mentions)
        if self.emoji is not None:
            _require_emoji(self.emoji)

    def is_same_as(self, message: Message) -> bool:
        """Whether the message is what this draft would be stored as. For keys that were stored without a digest."""
        return (
            self.sender_id == message.sender_id
            and self.kind is message.kind
            and self.content == message.content
            and self.content_type == message.content_type
        )


_NEED_CLIENT_ID = (Kind.MESSAGE, Kind.EDIT)
# A pin: the chat. A command: the chat and two memberships.
_EXTRA_ITEMS = {Kind.PIN: 1, Kind.NOTICE: 3}


@dataclass(frozen=True, slots=True)
class Sent:
    """The answer to a draft. `duplicate`: an earlier send of the same id had already stored the entry.

    `unchanged`: there was nothing to change. No entry was made, and `message` is the draft's target.
    """

    message: Message
    duplicate: bool
    unchanged: bool = False

    def to_json(self) -> dict[str, Any]:
        if self.unchanged:
            return {"duplicate": True, "sequence": None, "message": self.message.to_json()}
        return {**self.message.to_json(), "duplicate": self.duplicate}


def entry_persisted(message: Message, *, event_id: EventId, now: datetime, draft: Draft | None = None) -> Outgoing:
    """The event that an entry is durable. Its headers have the origin and the trace of the draft, if it has any."""
    event = Event(
        event_type="MessagePersisted" if message.kind is Kind.MESSAGE else "EntryPersisted",
        event_id=event_id,
        event_time=now,
        partition_key=message.chat_id,
        payload=message.to_json(),
    )
    headers: tuple[tuple[str, bytes], ...] = ()
    if draft is not None:
        if draft.origin is not None:
            headers = ((ORIGIN_HEADER, draft.origin.encode()),)
        if draft.traceparent is not None:
            headers = (*headers, (TRACEPARENT_HEADER, draft.traceparent.encode()))
    return Outgoing(event, headers=headers)


def _require_client_message_id(client_message_id: str) -> None:
    if not _CLIENT_MESSAGE_ID.fullmatch(client_message_id):
        raise _invalid("client_message_id", "Must be 1 to 128 visible ASCII characters.")


def _require_mentions(mentions: tuple[UserId, ...]) -> None:
    if len(mentions) > MAX_MENTIONS:
        raise _invalid("mentions", f"Must be at most {MAX_MENTIONS}.")
    if not all(map(is_user_id, mentions)):
        raise _invalid("mentions", "Must be user ids.")


def _require_emoji(emoji: str) -> None:
    if not _is_unicode(emoji) or len(emoji.encode()) > MAX_EMOJI_BYTES or not _EMOJI.fullmatch(emoji):
        raise _invalid("emoji", f"Must be one character of at most {MAX_EMOJI_BYTES} bytes, as people see characters.")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _require_content(content: str) -> None:
    if not content:
        raise _invalid("content", "Must not be empty.")
    if "\x00" in content:
        raise _invalid("content", "Must not contain NUL.")
    try:
        size = len(content.encode())
    except UnicodeEncodeError as error:
        raise _invalid("content", "Must be valid Unicode: it contains a lone surrogate.") from error
    if size > MAX_CONTENT_BYTES:
        text = f"Must be at most {MAX_CONTENT_BYTES} bytes of UTF-8; this is {size}."
        raise ContentTooLarge(text, fields={"content": [text]})


def _invalid(field: str, message: str) -> InvalidDraft:
    return InvalidDraft(f"{field}: {message}", fields={field: [message]})
