"""Drafts, messages, the answer to a sender, and the event that a message is stored."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from foundation.kernel.events import ORIGIN_HEADER, Event
from foundation.kernel.ids import ChatId, ConnectionId, EventId, MessageId, UserId
from foundation.stores.kafka.producer import Outgoing
from messaging.errors import ContentTooLarge, InvalidDraft

MAX_CONTENT_BYTES = 4096
TEXT = "text/plain"
CONTENT_TYPES = (TEXT,)
MAX_PAGE = 100
# The largest whole number that every JSON reader keeps exactly.
MAX_SEQUENCE = 2**53 - 1

_CLIENT_MESSAGE_ID = re.compile(r"[!-~]{1,128}")


@dataclass(frozen=True, slots=True)
class Message:
    """A stored message. `created_at` is ISO 8601 text: no code computes with it."""

    message_id: MessageId
    chat_id: ChatId
    sequence: int
    sender_id: UserId
    client_message_id: str
    content: str
    content_type: str
    created_at: str

    def to_json(self) -> dict[str, Any]:
        return {
            "message_id": self.message_id,
            "chat_id": self.chat_id,
            "sequence": self.sequence,
            "sender_id": self.sender_id,
            "client_message_id": self.client_message_id,
            "content": self.content,
            "content_type": self.content_type,
            "created_at": self.created_at,
        }


@dataclass(frozen=True, slots=True)
class Draft:
    """What a sender submits. `origin` is the connection it came through, which needs no copy back."""

    chat_id: ChatId
    sender_id: UserId
    client_message_id: str
    content: str
    content_type: str = TEXT
    origin: ConnectionId | None = None

    def require_valid(self) -> None:
        """Raises `ContentTooLarge` or `InvalidDraft`, which name the field."""
        if not _CLIENT_MESSAGE_ID.fullmatch(self.client_message_id):
            raise _invalid("client_message_id", "Must be 1 to 128 visible ASCII characters.")
        if self.content_type not in CONTENT_TYPES:
            raise _invalid("content_type", f"Must be one of: {', '.join(CONTENT_TYPES)}.")
        _require_content(self.content)

    def is_same_as(self, message: Message) -> bool:
        """Whether the message is what this draft would be stored as: then the draft is a retry."""
        return (
            self.sender_id == message.sender_id
            and self.content == message.content
            and self.content_type == message.content_type
        )


@dataclass(frozen=True, slots=True)
class Sent:
    """The answer to a draft. `duplicate`: an earlier send of the same id had already stored the message."""

    message: Message
    duplicate: bool

    def to_json(self) -> dict[str, Any]:
        return {**self.message.to_json(), "duplicate": self.duplicate}


def message_persisted(
    message: Message, *, event_id: EventId, now: datetime, origin: ConnectionId | None = None
) -> Outgoing:
    """The event that a message is durable. `origin` names the connection that needs no copy of it."""
    event = Event(
        event_type="MessagePersisted",
        event_id=event_id,
        event_time=now,
        partition_key=message.chat_id,
        payload=message.to_json(),
    )
    return Outgoing(event, headers=() if origin is None else ((ORIGIN_HEADER, origin.encode()),))


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
