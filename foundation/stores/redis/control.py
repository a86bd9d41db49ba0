"""Control messages to every `web` process, over Channels' channel layer.

Best effort: a process that misses a notice reads the state from DynamoDB later. Never carries messages of users.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from asgiref.sync import async_to_sync
from redis.exceptions import RedisError

from foundation.kernel.ids import SessionId, UserId
from foundation.stores.errors import StoreUnavailable

GROUP = "control"
SESSION_REVOKED = "session.revoked"
USER_SUSPENDED = "user.suspended"
USER_RESTORED = "user.restored"
GATEWAY_DRAINED = "gateway.drained"
GATEWAY_RESUMED = "gateway.resumed"
PRIVACY_CHANGED = "privacy.changed"
LISTENER_PROBE = "listener.probe"
PUBLISH_TIMEOUT_SECONDS = 1.0


class ChannelLayer(Protocol):
    """The part of Channels' channel layer that is used here."""

    async def group_send(self, group: str, message: dict[str, Any]) -> None: ...


class ControlChannel:
    """Tells every process of ended sessions, of suspended, restored and changed users, of drained and resumed gateways.

    Blocking: never call it on an event loop. Every method raises `StoreUnavailable` if Redis does not accept the notice
    in time.
    """

    def __init__(self, layer: ChannelLayer, *, timeout: float = PUBLISH_TIMEOUT_SECONDS) -> None:
        self._layer = layer
        self._timeout = timeout

    def publish_revocation(self, session_ids: Sequence[SessionId]) -> None:
        self._publish({"type": SESSION_REVOKED, "session_ids": list(session_ids)})

    def publish_suspension(self, user_id: UserId, *, is_suspended: bool) -> None:
        self._publish({"type": USER_SUSPENDED if is_suspended else USER_RESTORED, "user_ids": [user_id]})

    def publish_drain(self, gateway_id: str, *, is_draining: bool) -> None:
        self._publish({"type": GATEWAY_DRAINED if is_draining else GATEWAY_RESUMED, "gateway_id": gateway_id})

    def publish_privacy(self, user_id: UserId) -> None:
        self._publish({"type": PRIVACY_CHANGED, "user_ids": [user_id]})

    def _publish(self, message: dict[str, Any]) -> None:
        try:
            async_to_sync(self._send)(message)
        except (RedisError, OSError, TimeoutError) as error:
            raise StoreUnavailable(f"Redis did not take a notice ({type(error).__name__})") from error

    async def _send(self, message: dict[str, Any]) -> None:
        await asyncio.wait_for(self._layer.group_send(GROUP, message), self._timeout)
