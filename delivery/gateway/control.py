"""Control messages from other processes: sessions that were revoked."""

from collections.abc import Callable
from typing import Any, Protocol

from foundation.kernel.ids import SessionId
from foundation.stores.redis.control import GROUP, SESSION_REVOKED


class ChannelLayer(Protocol):
    """The methods of a channel layer that a listener needs."""

    async def new_channel(self) -> str: ...

    async def group_add(self, group: str, channel: str) -> None: ...

    async def receive(self, channel: str) -> dict[str, Any]: ...


class ControlListener:
    """One listener for all sockets of a process."""

    def __init__(self, layer: Callable[[], ChannelLayer]) -> None:
        self._layer = layer
        self._channel: str | None = None

    async def sessions_ended(self) -> list[SessionId]:
        """Wait for the next notice. Raises Redis's errors; the next call joins the group again."""
        channel, self._channel = self._channel, None
        layer = self._layer()
        if channel is None:
            channel = await layer.new_channel()
            await layer.group_add(GROUP, channel)
        message = await layer.receive(channel)
        self._channel = channel
        if message.get("type") != SESSION_REVOKED:
            return []
        return [SessionId(str(session_id)) for session_id in message.get("session_ids", [])]
