"""What this process knows of chats: where their counters stand, and who was seen to be a member.

All of it is guessed to be true still, and every transaction checks it: the counter's condition fails when the sequence
has moved elsewhere, or when anybody has left the chat (ADR-019). So a known member's draft needs no reading.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from chats.domain import Tally
from foundation.kernel.ids import ChatId, UserId

CAPACITY = 20_000
BELIEVED_FOR = 30.0
"""Seconds. A membership that ended without being counted (by hand, or by a Parley that did not count) ends here."""


@dataclass(slots=True)
class _Known:
    tally: Tally
    members: set[UserId] = field(default_factory=set)
    believed_until: float = 0.0


class Acquaintance:
    """Chats that were read or written lately. Not thread-safe."""

    def __init__(self, *, monotonic: Callable[[], float], capacity: int = CAPACITY) -> None:
        self._monotonic = monotonic
        self._capacity = capacity
        self._chats: OrderedDict[ChatId, _Known] = OrderedDict()

    def tally_of(self, chat_id: ChatId) -> Tally | None:
        known = self._chats.get(chat_id)
        return None if known is None else known.tally

    def meet(self, chat_id: ChatId, tally: Tally) -> None:
        """A counter that was just read. Members read beside it are not believed: they may have been read before it."""
        self._chats[chat_id] = _Known(tally)
        self._trim()

    def move(self, chat_id: ChatId, sequence: int) -> None:
        """The counter stands here by our own write."""
        known = self._chats.get(chat_id)
        if known is not None:
            known.tally = Tally(sequence, known.tally.departures)
            self._chats.move_to_end(chat_id)

    def believe(self, chat_id: ChatId, user_id: UserId, *, departures: int) -> None:
        """A member who was read after the departures were known to be these."""
        known = self._chats.get(chat_id)
        if known is None or known.tally.departures != departures:
            return
        now = self._monotonic()
        if known.believed_until <= now:
            known.members, known.believed_until = set(), now + BELIEVED_FOR
        known.members.add(user_id)

    def knows(self, chat_id: ChatId, user_id: UserId) -> bool:
        """Whether the user was seen in the chat lately."""
        known = self._chats.get(chat_id)
        return known is not None and user_id in known.members and self._monotonic() < known.believed_until

    def forget(self, chat_id: ChatId) -> None:
        self._chats.pop(chat_id, None)

    def _trim(self) -> None:
        if len(self._chats) > self._capacity:
            self._chats.popitem(last=False)
