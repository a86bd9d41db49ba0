"""An open loop: sends are due at fixed moments, whatever comes back."""

import math
from collections.abc import Iterator


class Schedule:
    """`rate` sends a second from `begun` on. Who comes late to a send is told when it was due."""

    def __init__(self, rate: float, begun: float) -> None:
        self._rate = rate
        self._begun = begun
        self.given = 0

    def due(self, now: float) -> Iterator[float]:
        """The moments that have come since the last call, each once."""
        count = math.floor((now - self._begun) * self._rate) + 1 if now >= self._begun else 0
        while self.given < count:
            moment = self._begun + self.given / self._rate
            self.given += 1
            yield moment
