"""Control messages to every `web` process, over Channels' channel layer: a session was revoked, drain.

Never messages of users. What is lost here is only lateness: whoever missed a notice learns the truth from DynamoDB.
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
    """As much of a channel layer as is needed to tell."""

    async def group_send(self, group: str, message: dict[str, Any]) -> None: ...


class RevocationChannel:
    """Tells every process that sessions have ended. For threads: never call it on an event loop."""

    def __init__(self, layer: ChannelLayer, *, timeout: float = PUBLISH_TIMEOUT_SECONDS) -> None:
        self._layer = layer
        self._timeout = timeout

    def publish(self, session_ids: Sequence[SessionId]) -> None:
        """Raises `StoreUnavailable` when Redis does not take it in time."""
        message = {"type": SESSION_REVOKED, "session_ids": list(session_ids)}
        try:
            async_to_sync(self._send)(message)
        except (RedisError, OSError, TimeoutError) as error:
            raise StoreUnavailable(f"Redis did not take a notice ({type(error).__name__})") from error

    async def _send(self, message: dict[str, Any]) -> None:
        await asyncio.wait_for(self._layer.group_send(GROUP, message), self._timeout)
