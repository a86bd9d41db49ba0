"""Which gateways listen for deliveries, and how many connections each has."""

from typing import cast

import redis

from delivery.stores.connections import deliver_channel, gateway_key
from foundation.stores.redis.client import naming_failures


class GatewayCounts:
    """Blocking. Raises `StoreUnavailable` when Redis is away."""

    def __init__(self, client: "redis.Redis") -> None:
        self._client = client

    def connections(self) -> dict[str, int]:
        """By gateway id. Every `web` process is listed, also while it has no connection."""
        before, _, after = deliver_channel("*").partition("*")
        with naming_failures():
            channels = cast("list[bytes]", self._client.pubsub_channels(deliver_channel("*")))
        ids = [channel.decode().removeprefix(before).removesuffix(after) for channel in channels]
        return {gateway_id: self.count(gateway_id) for gateway_id in sorted(ids)}

    def count(self, gateway_id: str) -> int:
        with naming_failures():
            return int(self._client.scard(gateway_key(gateway_id)))
