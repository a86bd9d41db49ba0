"""Redis' channels between `web` processes: `home:{gateway_id}:{epoch}`, one for each process and epoch."""

from collections.abc import AsyncIterator

import redis.asyncio

from foundation.stores.errors import StoreUnavailable
from foundation.stores.redis.client import naming_failures
from foundation.stores.redis.subscriptions import next_message

SUBSCRIBE_TIMEOUT = 1.0


class PeerChannel:
    """Implements `messaging.services.peers.Channel`."""

    def __init__(self, client: "redis.asyncio.Redis") -> None:
        self._client = client

    async def publish(self, name: str, payload: bytes) -> int:
        """Return how many it reached. Raises `StoreUnavailable`: it may have reached somebody."""
        with naming_failures():
            return int(await self._client.publish(_channel(name), payload))

    async def listen(self, name: str) -> AsyncIterator[bytes | None]:
        """Yield None once subscribed, then every payload. Raises `StoreUnavailable` when the subscription breaks.

        The client library reconnects by itself; what was published meanwhile is lost, and a second confirmation of the
        subscription tells that this has happened.
        """
        with naming_failures():
            async with self._client.pubsub() as pubsub:
                await pubsub.subscribe(_channel(name))
                confirmation = await pubsub.get_message(timeout=SUBSCRIBE_TIMEOUT)
                if confirmation is None or confirmation["type"] != "subscribe":
                    raise StoreUnavailable("Redis did not confirm a subscription in time")
                yield None
                while True:
                    message = await next_message(pubsub)
                    if message["type"] == "subscribe":
                        raise StoreUnavailable("The subscription broke")
                    if message["type"] == "message":
                        yield message["data"]


def _channel(name: str) -> str:
    return f"home:{name}"
