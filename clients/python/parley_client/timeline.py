"""The reorder buffer of one chat. Pure: no network, no clock."""

from collections.abc import Iterable
from typing import Any

Message = dict[str, Any]


class Timeline:
    """Takes messages in any order; returns each once, in sequence, without gaps."""

    def __init__(self, *, last_seen: int = 0) -> None:
        self.next = last_seen + 1
        self._buffer: dict[int, Message] = {}

    @property
    def last_seen(self) -> int:
        return self.next - 1

    @property
    def has_gap(self) -> bool:
        """A message beyond `next` has arrived, so `next` is missing."""
        return bool(self._buffer)

    def take(self, messages: Iterable[Message]) -> list[Message]:
        """Add messages; return those that are ready to deliver, in ascending order."""
        for message in messages:
            if message["sequence"] >= self.next:
                self._buffer[message["sequence"]] = message
        ready: list[Message] = []
        while self.next in self._buffer:
            ready.append(self._buffer.pop(self.next))
            self.next += 1
        return ready
