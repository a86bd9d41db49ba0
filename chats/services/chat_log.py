"""The interface of the chat's log, through which a chat's name and members change, and which is told of new chats.

`messaging` writes the log and implements the interface, because `chats` must not import `messaging`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from chats.domain import Command
from foundation.kernel.ids import ChatId, UserId


@dataclass(frozen=True, slots=True)
class Notice:
    """The entry that tells of a change."""

    sequence: int
    created_at: datetime
    fields: Mapping[str, Any]


class ChatLog(Protocol):
    """Stores a command's notice, and what it changes, in one transaction."""

    def commit(self, chat_id: ChatId, caller_id: UserId, command: Command) -> Notice:
        """Judge the command (`chats.services.changes`) and store it.

        Raises what `Changes.judge` raises, and `ChatNotFound` if the caller is not a member.
        """
        ...

    def note(self, chat_id: ChatId) -> None:
        """Call it before the transaction that creates a chat: a crash before its event then leaves a trace.

        Returns at once.
        """
        ...
