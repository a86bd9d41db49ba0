"""The reorder buffer of one chat. Pure: no network, no clock."""

from collections.abc import Iterable
from typing import Any

Message = dict[str, Any]


MAX_BUFFERED = 1_000


class Timeline:
    """Takes messages in any order; returns each once, in sequence, without gaps.

    Buffers at most `MAX_BUFFERED` messages behind a gap; the sync that fills the gap brings the others again.
    """

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
            if message["sequence"] == self.next or (
                message["sequence"] > self.next and len(self._buffer) < MAX_BUFFERED
            ):
                self._buffer[message["sequence"]] = message
        ready: list[Message] = []
        while self.next in self._buffer:
            ready.append(self._buffer.pop(self.next))
            self.next += 1
        return ready
