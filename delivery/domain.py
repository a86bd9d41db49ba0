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
    """How far a member's devices have received a chat, and how far the member has read it; 0: not at all.

    `read` is None as long as no client has told it, 0 once one has told that nothing was read yet.
    """

    acked: int = 0
    read: int | None = None

    @property
    def delivered(self) -> int:
        """What was read has arrived, whether or not it was acknowledged."""
        return max(self.acked, self.read or 0)

    @property
    def unread_after(self) -> int:
        """Later messages are unread. Members whose clients send no read marks have read what has arrived."""
        return self.acked if self.read is None else self.read

    def of(self, mark: Mark) -> int:
        """Where this mark itself stands."""
        return (self.read or 0) if mark is Mark.READ else self.acked

    def covers(self, mark: Mark, sequence: int) -> bool:
        """Whether nothing is to be written for this mark."""
        if mark is Mark.READ:
            return self.read is not None and sequence <= self.read
        return sequence <= self.delivered

    def merged(self, other: "Marks") -> "Marks":
        """The further of each."""
        reads = [marks.read for marks in (self, other) if marks.read is not None]
        return Marks(max(self.acked, other.acked), max(reads, default=None))

    def to_json(self) -> dict[str, int]:
        return {Mark.ACKED.value: self.delivered, Mark.READ.value: self.read or 0}


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
    """A chat in a member's inbox, with its last message, the sequence after which messages are unread, and how many."""

    listed: ListedChat
    marks: Marks
    last_message: Message | None
    unread_after: int
    unread_count: int

    def to_json(self) -> dict[str, Any]:
        return {
            **self.listed.to_json(),
            **self.marks.to_json(),
            "unread_after": self.unread_after,
            "unread_count": self.unread_count,
            "last_message": None if self.last_message is None else self.last_message.to_json(),
        }
