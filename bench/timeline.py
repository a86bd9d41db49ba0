"""What one user received of one chat: recorded during the run, parsed and checked after it.

Recording a frame costs two appends, so that the client stays cheap while it is measured.
"""

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass

from bench.frames import parse_messages

Parse = Callable[[bytes], Iterable[tuple[int, float]]]


class InvalidRun(AssertionError):
    """Raised when messages are missing or out of order, or the server sent errors: the figures mean nothing."""


@dataclass(slots=True)
class DeliveryCheck:
    """Counts over one or many timelines. Duplicates are allowed: delivery is at least once."""

    received: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    missing: int = 0
    incomplete: int = 0
    """Timelines with a message missing."""

    def __iadd__(self, other: "DeliveryCheck") -> "DeliveryCheck":
        self.received += other.received
        self.duplicates += other.duplicates
        self.out_of_order += other.out_of_order
        self.missing += other.missing
        self.incomplete += other.incomplete
        return self

    def require_passed(self) -> None:
        """Raises `InvalidRun`."""
        if self.missing or self.out_of_order:
            raise InvalidRun(
                f"of {self.received} messages received, {self.missing} missing "
                f"in {self.incomplete} timelines, {self.out_of_order} out of order"
            )


class Timeline:
    """Live messages in the order of arrival, acks of own messages, and the results of a sync.

    `parse` yields the sequence and the due time of every message in a frame.
    """

    __slots__ = ("_acked_at", "_acks", "_messages", "_parse", "_received_at", "_synced")

    def __init__(self, parse: Parse = parse_messages) -> None:
        self._parse = parse
        self._messages: list[bytes] = []
        self._received_at: list[float] = []
        self._acks: list[bytes] = []
        self._acked_at: list[float] = []
        self._synced: list[bytes] = []

    def __len__(self) -> int:
        """Frames so far."""
        return len(self._messages) + len(self._acks) + len(self._synced)

    def add_message(self, frame: bytes, now: float) -> None:
        self._messages.append(frame)
        self._received_at.append(now)

    def add_ack(self, frame: bytes, now: float) -> None:
        self._acks.append(frame)
        self._acked_at.append(now)

    def add_sync(self, frame: bytes) -> None:
        self._synced.append(frame)

    def messages(self) -> Iterator[tuple[int, float, float]]:
        """Sequence, due time and arrival time of each live message."""
        return self._parse_all(self._messages, self._received_at)

    def acks(self) -> Iterator[tuple[int, float, float]]:
        """The same for each ack."""
        return self._parse_all(self._acks, self._acked_at)

    def check(self, *, after: int, latest: int) -> DeliveryCheck:
        """Check that everything after `after` up to `latest` arrived, and that live messages arrived in order."""
        others = {sequence for frame in (*self._acks, *self._synced) for sequence, _ in self._parse(frame)}
        live = (sequence for sequence, _, _ in self.messages())
        return check_sequences(live, after=after, latest=latest, others=others)

    def _parse_all(self, frames: Iterable[bytes], times: Iterable[float]) -> Iterator[tuple[int, float, float]]:
        for frame, now in zip(frames, times, strict=True):
            for sequence, due in self._parse(frame):
                yield sequence, due, now


def check_sequences(live: Iterable[int], *, after: int, latest: int, others: Set[int] = frozenset()) -> DeliveryCheck:
    """Check sequences in the order of live arrival; `others` arrived by ack or sync, in any order."""
    seen, highest, check = set[int](), after, DeliveryCheck()
    for sequence in live:
        check.received += 1
        if sequence in seen:
            check.duplicates += 1
        elif sequence < highest:
            check.out_of_order += 1
        seen.add(sequence)
        highest = max(highest, sequence)
    check.missing = len(set(range(after + 1, latest + 1)) - seen - others)
    check.incomplete = int(check.missing > 0)
    return check
