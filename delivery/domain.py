"""Marks, watermarks and inbox entries."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from chats.domain import ListedChat
from foundation.kernel.clock import to_iso
from foundation.kernel.ids import ChatId, UserId
from messaging.domain import Message

Pair = tuple[UserId, ChatId]


class Mark(StrEnum):
    """A kind of mark, by its name in the API and in `delivery_state`."""

    ACKED = "last_acked_sequence"
    READ = "last_read_sequence"


@dataclass(frozen=True, slots=True)
class Marks:
    """How far a member's devices have received a chat, and how far the member has read it; 0: not at all."""

    acked: int = 0
    read: int = 0

    @property
    def delivered(self) -> int:
        """What was read has arrived, whether or not it was acknowledged."""
        return max(self.acked, self.read)

    @property
    def unread_after(self) -> int:
        """Later messages are unread. Members whose clients send no read marks have read what has arrived."""
        return self.read or self.acked

    def covers(self, mark: Mark, sequence: int) -> bool:
        """Whether nothing is to be written for this mark."""
        return sequence <= (self.read if mark is Mark.READ else self.delivered)

    def merged(self, other: "Marks") -> "Marks":
        """The further of each."""
        return Marks(max(self.acked, other.acked), max(self.read, other.read))

    def to_json(self) -> dict[str, int]:
        return {Mark.ACKED.value: self.delivered, Mark.READ.value: self.read}


@dataclass(frozen=True, slots=True)
class Watermark:
    """A user's marks in a chat, and when one of them moved last."""

    chat_id: ChatId
    marks: Marks
    updated_at: datetime

    def to_json(self) -> dict[str, Any]:
        return {"chat_id": self.chat_id, **self.marks.to_json(), "updated_at": to_iso(self.updated_at)}


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """A chat in a member's inbox, with its last message and unread count."""

    listed: ListedChat
    marks: Marks
    last_message: Message | None
    unread_count: int

    def to_json(self) -> dict[str, Any]:
        return {
            **self.listed.to_json(),
            **self.marks.to_json(),
            "unread_count": self.unread_count,
            "last_message": None if self.last_message is None else self.last_message.to_json(),
        }
