"""The consumer for WebSocket paths that do not exist."""

from typing import Any

from channels.consumer import AsyncConsumer
from channels.exceptions import StopConsumer


class NoSuchSocket(AsyncConsumer):  # type: ignore[misc]
    """Refuses the handshake: the only socket is `/ws`."""

    channel_layer_alias = "none"

    async def websocket_connect(self, event: dict[str, Any]) -> None:
        await self.send({"type": "websocket.close"})
        raise StopConsumer
