"""How many connections an address may hold at once."""

from collections import Counter as Tally
from collections.abc import Callable

from prometheus_client import Counter

from foundation.kernel.addresses import client_of

REFUSED = Counter("parley_connections_refused_total", "Connections refused because their address held too many.")


class ConnectionsPerAddress:
    """Counts connections by address, and IPv6 by network of 64 bits, because one client has all of its addresses.

    Addresses for which `is_exempt` returns True are not counted.
    """

    def __init__(self, limit: int, *, is_exempt: Callable[[str], bool]) -> None:
        self._limit = limit
        self._is_exempt = is_exempt
        self._held: Tally[str] = Tally()

    def take(self, address: str) -> "Slot | None":
        """Count a connection until its slot is released. None if the address holds as many as it may."""
        if self._is_exempt(address):
            return Slot(None, self._held)
        client = client_of(address)
        if self._held[client] >= self._limit:
            REFUSED.inc()
            return None
        self._held[client] += 1
        return Slot(client, self._held)

    def held(self, address: str) -> int:
        return self._held[client_of(address)]


class Slot:
    """A counted connection. Releasing it again does nothing."""

    __slots__ = ("_client", "_held")

    def __init__(self, client: str | None, held: Tally[str]) -> None:
        self._client = client
        self._held = held

    def release(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        self._held[client] -= 1
        if not self._held[client]:
            del self._held[client]
