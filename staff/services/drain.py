"""Drains a gateway: its clients move on to others, and it takes no new ones until it is resumed or restarted."""

import time
from collections.abc import Callable

from delivery.stores.gateway_counts import GatewayCounts
from foundation.kernel.errors import NotFound
from foundation.stores.redis.control import ControlChannel

POLL_SECONDS = 0.2
DRAIN_TIMEOUT_SECONDS = 30.0


class GatewayNotFound(NotFound):
    """No `web` process with this id holds connections."""

    code = "gateway_not_found"
    title = "There is no such gateway"


class Drainer:
    """Blocking. Raises `StoreUnavailable` when Redis is away."""

    def __init__(
        self, *, gateways: GatewayCounts, notices: ControlChannel, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._gateways = gateways
        self._notices = notices
        self._sleep = sleep

    def connections(self) -> dict[str, int]:
        """The gateways that listen, with the number of their connections."""
        return self._gateways.connections()

    def start(self, gateway_id: str) -> int:
        """Let the gateway's clients move on; return how many there are. Raises `GatewayNotFound`."""
        before = self._require(gateway_id)
        self._notices.publish_drain(gateway_id, is_draining=True)
        return before

    def drain(self, gateway_id: str) -> tuple[int, int]:
        """Let the gateway's clients move on; return how many there were, and how many are left after half a minute.

        Raises `GatewayNotFound`.
        """
        before = self.start(gateway_id)
        deadline = time.monotonic() + DRAIN_TIMEOUT_SECONDS
        while (left := self._gateways.count(gateway_id)) and time.monotonic() < deadline:
            self._sleep(POLL_SECONDS)
        return before, left

    def resume(self, gateway_id: str) -> None:
        """Let a drained gateway take connections again. Raises `GatewayNotFound`."""
        self._require(gateway_id)
        self._notices.publish_drain(gateway_id, is_draining=False)

    def _require(self, gateway_id: str) -> int:
        found = self.connections()
        if gateway_id not in found:
            known = ", ".join(sorted(found)) or "none"
            raise GatewayNotFound(f"No gateway {gateway_id} listens. Those that do: {known}.")
        return found[gateway_id]
