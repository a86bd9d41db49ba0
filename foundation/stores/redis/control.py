"""Control messages to every `web` process, over Channels' channel layer.

Best effort: a process that misses a notice reads the state from DynamoDB later. Never carries messages of users.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from asgiref.sync import async_to_sync
from redis.exceptions import RedisError

from foundation.kernel.ids import SessionId
from foundation.stores.errors import StoreUnavailable

GROUP = "control"
SESSION_REVOKED = "session.revoked"
PUBLISH_TIMEOUT_SECONDS = 1.0


class ChannelLayer(Protocol):
    """The part of Channels' channel layer that is used here."""

    async def group_send(self, group: str, message: dict[str, Any]) -> None: ...


class RevocationChannel:
    """Notifies every process that sessions have ended. Blocking: never call it on an event loop."""

    def __init__(self, layer: ChannelLayer, *, timeout: float = PUBLISH_TIMEOUT_SECONDS) -> None:
        self._layer = layer
        self._timeout = timeout

    def publish(self, session_ids: Sequence[SessionId]) -> None:
        """Raises `StoreUnavailable` if Redis does not accept the notice in time."""
        message = {"type": SESSION_REVOKED, "session_ids": list(session_ids)}
        try:
            async_to_sync(self._send)(message)
        except (RedisError, OSError, TimeoutError) as error:
            raise StoreUnavailable(f"Redis did not take a notice ({type(error).__name__})") from error

    async def _send(self, message: dict[str, Any]) -> None:
        await asyncio.wait_for(self._layer.group_send(GROUP, message), self._timeout)
