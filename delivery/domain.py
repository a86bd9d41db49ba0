"""Watermarks and inbox entries."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from chats.domain import ListedChat
from foundation.kernel.clock import to_iso
from foundation.kernel.ids import ChatId
from messaging.domain import Message


@dataclass(frozen=True, slots=True)
class Watermark:
    """Everything of the chat up to and including `last_acked_sequence` has arrived."""

    chat_id: ChatId
    last_acked_sequence: int
    updated_at: datetime

    def to_json(self) -> dict[str, Any]:
        return {
            "chat_id": self.chat_id,
            "last_acked_sequence": self.last_acked_sequence,
            "updated_at": to_iso(self.updated_at),
        }


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """A chat in a member's inbox, with its last message and unread count."""

    listed: ListedChat
    last_acked_sequence: int
    last_message: Message | None

    @property
    def unread_count(self) -> int:
        return max(0, self.listed.state.last_sequence - self.last_acked_sequence)

    def to_json(self) -> dict[str, Any]:
        return {
            **self.listed.to_json(),
            "last_acked_sequence": self.last_acked_sequence,
            "unread_count": self.unread_count,
            "last_message": None if self.last_message is None else self.last_message.to_json(),
        }
