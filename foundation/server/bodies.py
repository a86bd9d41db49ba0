"""How many bytes of request bodies a process holds, from the first byte that arrives to the answer."""

from collections import Counter as Tally
from collections.abc import Callable

from prometheus_client import Counter, Gauge

from foundation.kernel.addresses import client_of
from foundation.kernel.errors import RateLimited
from foundation.server.gate import Overcrowded

REFUSED = Counter("parley_bodies_refused_total", "Requests refused because too many bytes of bodies were held.")
HELD = Gauge("parley_body_bytes", "Bytes of request bodies that are held.")

ADDRESS_PART = 8
"""An address holds at most this part of the total, so that one client does not use it up for the others."""


class BodyBudget:
    """Counts bytes in total and by address. Addresses for which `is_exempt` returns True count in total only."""

    def __init__(self, total: int, *, is_exempt: Callable[[str], bool]) -> None:
        self._total = total
        self._is_exempt = is_exempt
        self._held = 0
        self._held_by: Tally[str] = Tally()

    def open(self, address: str) -> "HeldBody":
        return HeldBody(self, None if self._is_exempt(address) else client_of(address))

    def take(self, client: str | None, size: int) -> None:
        """Raises `Overcrowded`, or `RateLimited` if the client alone holds too much, and then takes nothing."""
        if client is not None and self._held_by[client] + size > self._total // ADDRESS_PART:
            REFUSED.inc()
            raise RateLimited("Too many bodies from this address at once", retry_after=1.0)
        if self._held + size > self._total:
            REFUSED.inc()
            raise Overcrowded(retry_after=1.0)
        self._held += size
        HELD.set(self._held)
        if client is not None:
            self._held_by[client] += size

    def release(self, client: str | None, size: int) -> None:
        self._held -= size
        HELD.set(self._held)
        if client is not None:
            self._held_by[client] -= size
            if not self._held_by[client]:
                del self._held_by[client]


class HeldBody:
    """The bytes of one body."""

    __slots__ = ("_budget", "_client", "_size")

    def __init__(self, budget: BodyBudget, client: str | None) -> None:
        self._budget = budget
        self._client = client
        self._size = 0

    def grow(self, size: int) -> None:
        """Raises `Overcrowded`, `RateLimited`."""
        self._budget.take(self._client, size)
        self._size += size

    def release(self) -> None:
        """Give all bytes back. Releasing them again does nothing."""
        size, self._size = self._size, 0
        if size:
            self._budget.release(self._client, size)
