"""Redis' channels between `web` processes: `home:{gateway_id}:{epoch}`, one for each process and epoch."""

import asyncio
from collections.abc import AsyncIterator

import redis.asyncio

from foundation.stores.errors import StoreUnavailable
from foundation.stores.redis import subscriptions
from foundation.stores.redis.client import AWAY, PROBE_KEY, PROBE_TTL, naming_failures

SUBSCRIBE_TIMEOUT = 1.0
CHECK_EVERY = 5.0
"""Seconds after which it is checked that the subscription is at the primary."""


class PeerChannel:
    """Implements `messaging.services.peers.Channel`."""

    def __init__(self, client: "redis.asyncio.Redis") -> None:
        self._client = client

    async def publish(self, name: str, payload: bytes) -> int:
        """Return how many it reached. Raises `StoreUnavailable`: it may have reached somebody.

        The write before it fails on a replica: it would also take a `PUBLISH`, which processes at the primary do not
        get.
        """
        with naming_failures():
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.expire(PROBE_KEY, PROBE_TTL)
                pipe.publish(_channel(name), payload)
                _, reached = await pipe.execute()
                return int(reached)

    async def listen(self, name: str) -> AsyncIterator[bytes | None]:
        """Yield None once subscribed, then every payload. Raises `StoreUnavailable` when the subscription breaks.

        The client library reconnects by itself; what was published meanwhile is lost, and a second confirmation of the
        subscription tells that this has happened. One at a server that a failover has made a replica is broken too: who
        publishes at the primary counts nobody.
        """
        loop = asyncio.get_running_loop()
        with naming_failures():
            async with self._client.pubsub() as pubsub:
                await pubsub.subscribe(_channel(name))
                confirmation = await pubsub.get_message(timeout=SUBSCRIBE_TIMEOUT)
                subscriptions.require_not_cancelled()
                if confirmation is None or confirmation["type"] != "subscribe":
                    raise StoreUnavailable("Redis did not confirm a subscription in time")
                yield None
                check_at = loop.time() + CHECK_EVERY
                while True:
                    message = await pubsub.get_message(timeout=subscriptions.CHECK_EVERY)
                    if message is None:
                        message = await subscriptions.answer_to_ping(pubsub)
                    if message["type"] == "subscribe":
                        raise StoreUnavailable("The subscription broke")
                    if message["type"] == "message":
                        yield message["data"]
                    if loop.time() >= check_at:
                        if await self._is_elsewhere(name):
                            raise StoreUnavailable("The primary does not know the subscription")
                        subscriptions.require_not_cancelled()
                        check_at = loop.time() + CHECK_EVERY

    async def _is_elsewhere(self, name: str) -> bool:
        """Whether the primary answers that nobody has subscribed."""
        try:
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.expire(PROBE_KEY, PROBE_TTL)
                pipe.pubsub_numsub(_channel(name))
                _, [(_, count)] = await pipe.execute()
        except AWAY:
            return False
        return not count


def _channel(name: str) -> str:
    return f"home:{name}"
