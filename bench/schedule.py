"""An open-loop schedule: sends are due at a fixed rate, independent of the responses."""

import math
from collections.abc import Iterator


class Schedule:
    """`rate` sends a second from `start` on.

    A late sender gets the intended send time, so that latencies include the delay (no coordinated omission).
    """

    def __init__(self, rate: float, start: float) -> None:
        self._rate = rate
        self._start = start
        self.issued = 0

    def due(self, now: float) -> Iterator[float]:
        """Yield each send time that has passed since the last call."""
        count = math.floor((now - self._start) * self._rate) + 1 if now >= self._start else 0
        while self.issued < count:
            due = self._start + self.issued / self._rate
            self.issued += 1
            yield due
