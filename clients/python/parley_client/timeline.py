"""One chat as its reader sees it: dense, in order, each message once. Pure: no network, no clock."""

from collections.abc import Iterable
from typing import Any

Message = dict[str, Any]


class Timeline:
    """Takes messages in any order and gives them out in sequence."""

    def __init__(self, *, last_seen: int = 0) -> None:
        self.next = last_seen + 1
        self._waiting: dict[int, Message] = {}

    @property
    def last_seen(self) -> int:
        return self.next - 1

    @property
    def has_gap(self) -> bool:
        """Something beyond `next` has arrived, so something before it is missing."""
        return bool(self._waiting)

    def take(self, messages: Iterable[Message]) -> list[Message]:
        """Add what arrived; return what can be shown now, ascending."""
        for message in messages:
            if message["sequence"] >= self.next:
                self._waiting[message["sequence"]] = message
        ready: list[Message] = []
        while self.next in self._waiting:
            ready.append(self._waiting.pop(self.next))
            self.next += 1
        return ready
