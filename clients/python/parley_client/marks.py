"""How far each member of a chat is, who types, and who is online."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

TYPING_SECONDS = 6.0


@dataclass(frozen=True, slots=True)
class Mark:
    """Everything up to `delivered` has arrived; everything up to `read` was seen, None where the person hides it."""

    delivered: int = 0
    read: int | None = None


@dataclass(slots=True)
class Marks:
    """The state behind the frames `receipts`, `typing` and `presence`. `clock` returns seconds."""

    clock: Callable[[], float]
    presence: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _receipts: dict[str, dict[str, Mark]] = field(default_factory=dict)
    _typing: dict[str, dict[str, float]] = field(default_factory=dict)

    def receipts(self, chat_id: str) -> Mapping[str, Mark]:
        return self._receipts.get(chat_id, {})

    def typing(self, chat_id: str) -> list[str]:
        """Who types now. A typist who is not heard of again is forgotten after six seconds."""
        return [user_id for user_id, until in self._typing.get(chat_id, {}).items() if until > self.clock()]

    def add_receipts(self, chat_id: str, marks: Iterable[Mapping[str, Any]]) -> None:
        """Marks never move back, in whatever order they arrive."""
        known = self._receipts.setdefault(chat_id, {})
        for mark in marks:
            before, read = known.get(mark["user_id"], Mark()), mark.get("last_read_sequence")
            furthest = before.read if read is None else max(read, before.read or 0)
            delivered = max(before.delivered, mark["last_acked_sequence"], furthest or 0)
            known[mark["user_id"]] = Mark(delivered, furthest)

    def hide_reads(self, chat_id: str, marks: Iterable[Mapping[str, Any]], before: Mapping[str, Mark]) -> None:
        """Forget the read marks that `marks`, all that the API tells, no longer has: they are hidden now.

        `before` is what was known when it was asked: what has arrived since is kept.
        """
        known = self._receipts.setdefault(chat_id, {})
        for mark in marks:
            user_id, shown = mark["user_id"], mark.get("last_read_sequence")
            if shown is None and known[user_id].read == before.get(user_id, Mark()).read:
                known[user_id] = Mark(known[user_id].delivered)

    def clear_live(self) -> None:
        """Without a connection nobody is known to type or to be online."""
        self._typing.clear()
        self.presence.clear()

    def on_typing(self, chat_id: str, user_id: str, *, active: bool) -> None:
        typists = self._typing.setdefault(chat_id, {})
        if active:
            typists[user_id] = self.clock() + TYPING_SECONDS
        else:
            typists.pop(user_id, None)
