"""The channel layer: that of channels-redis, which also reports each connection that it makes.

channels-redis connects and subscribes again by itself when a connection is lost, and nobody learns that messages may
have been lost meanwhile.
"""

from collections.abc import Callable, Sequence
from typing import Any

from channels_redis.pubsub import RedisPubSubChannelLayer  # type: ignore[import-untyped]
from redis.asyncio.connection import AbstractConnection


class ObservedChannelLayer(RedisPubSubChannelLayer):  # type: ignore[misc]
    """Channels makes it from `CHANNEL_LAYERS`. `hosts` are URLs."""

    def __init__(self, hosts: Sequence[str], **options: Any) -> None:
        self._on_connect: list[Callable[[], None]] = []
        super().__init__(hosts=[{"address": host, "redis_connect_func": self._connect} for host in hosts], **options)

    def observe(self, on_connect: Callable[[], None]) -> None:
        """Call `on_connect` with each connection, before it subscribes, on the event loop that uses the connection."""
        self._on_connect.append(on_connect)

    async def _connect(self, connection: AbstractConnection) -> None:
        await connection.on_connect()
        for on_connect in self._on_connect:
            on_connect()
