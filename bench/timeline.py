"""What one person got of one chat, kept as it came and read when the measurement is over.

While it lasts, a frame costs its receiver two appends; afterwards every message is accounted for.
"""

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass

from bench.frames import arrivals

Read = Callable[[bytes], Iterable[tuple[int, float]]]


class WrongDelivery(AssertionError):
    """Somebody missed a message, or got one before an earlier one. The run's figures mean nothing."""


@dataclass(slots=True)
class Account:
    """Of one or many timelines. Repeats are allowed, for delivery is at least once: a client drops them."""

    received: int = 0
    repeated: int = 0
    disordered: int = 0
    missing: int = 0
    timelines: int = 0
    """Of those that something is missing in."""

    def __iadd__(self, other: "Account") -> "Account":
        self.received += other.received
        self.repeated += other.repeated
        self.disordered += other.disordered
        self.missing += other.missing
        self.timelines += other.timelines
        return self

    def require_right(self) -> None:
        """Raises `WrongDelivery`."""
        if self.missing or self.disordered:
            raise WrongDelivery(
                f"of {self.received} messages received, {self.missing} missing "
                f"in {self.timelines} timelines, {self.disordered} out of order"
            )


class Timeline:
    """Live messages in the order of their arrival, acks of own messages, and what a sync brought.

    `read` finds the sequence and the due time of every message in a frame.
    """

    __slots__ = ("_acks", "_acks_at", "_live", "_live_at", "_read", "_synced")

    def __init__(self, read: Read = arrivals) -> None:
        self._read = read
        self._live: list[bytes] = []
        self._live_at: list[float] = []
        self._acks: list[bytes] = []
        self._acks_at: list[float] = []
        self._synced: list[bytes] = []

    def __len__(self) -> int:
        """Frames so far: a number that stands still when nothing comes any more."""
        return len(self._live) + len(self._acks) + len(self._synced)

    def message(self, frame: bytes, now: float) -> None:
        self._live.append(frame)
        self._live_at.append(now)

    def ack(self, frame: bytes, now: float) -> None:
        self._acks.append(frame)
        self._acks_at.append(now)

    def synced(self, frame: bytes) -> None:
        self._synced.append(frame)

    def live(self) -> Iterator[tuple[int, float, float]]:
        """Sequence, when it was due, when it came."""
        return self._each(self._live, self._live_at)

    def own(self) -> Iterator[tuple[int, float, float]]:
        """The same of the acks of what this person sent."""
        return self._each(self._acks, self._acks_at)

    def account(self, *, after: int, latest: int) -> Account:
        """Whether everything from `after` to `latest` came, and what came live came in order."""
        others = {sequence for frame in (*self._acks, *self._synced) for sequence, _ in self._read(frame)}
        return account_for((sequence for sequence, _, _ in self.live()), after=after, latest=latest, others=others)

    def _each(self, frames: Iterable[bytes], times: Iterable[float]) -> Iterator[tuple[int, float, float]]:
        for frame, now in zip(frames, times, strict=True):
            for sequence, due in self._read(frame):
                yield sequence, due, now


def account_for(live: Iterable[int], *, after: int, latest: int, others: Set[int] = frozenset()) -> Account:
    """Of sequences as they came live; `others` came by other ways."""
    seen, highest, account = set[int](), after, Account()
    for sequence in live:
        account.received += 1
        if sequence in seen:
            account.repeated += 1
        elif sequence < highest:
            account.disordered += 1
        seen.add(sequence)
        highest = max(highest, sequence)
    account.missing = len(set(range(after + 1, latest + 1)) - seen - others)
    account.timelines = int(account.missing > 0)
    return account
