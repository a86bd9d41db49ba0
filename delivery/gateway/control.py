"""Control messages from other processes about sessions, users and gateways."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from foundation.kernel.ids import SessionId, UserId
from foundation.stores.redis.control import (
    GATEWAY_DRAINED,
    GATEWAY_RESUMED,
    GROUP,
    PRIVACY_CHANGED,
    SESSION_REVOKED,
    USER_RESTORED,
    USER_SUSPENDED,
)


class ChannelLayer(Protocol):
    """The methods of a channel layer that a listener needs."""

    async def new_channel(self) -> str: ...

    async def group_add(self, group: str, channel: str) -> None: ...

    async def receive(self, channel: str) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Notice:
    """What other processes have to know. A message of an unknown type is an empty notice."""

    ended: frozenset[SessionId] = frozenset()
    suspended: frozenset[UserId] = frozenset()
    restored: frozenset[UserId] = frozenset()
    drained: str | None = None
    resumed: str | None = None
    privacy_changed: frozenset[UserId] = frozenset()

    @classmethod
    def of(cls, message: dict[str, Any]) -> "Notice":
        session_ids = frozenset(map(SessionId, message.get("session_ids", ())))
        user_ids = frozenset(map(UserId, message.get("user_ids", ())))
        kind = message.get("type")
        if kind == SESSION_REVOKED:
            return cls(ended=session_ids)
        if kind == USER_SUSPENDED:
            return cls(suspended=user_ids)
        if kind == USER_RESTORED:
            return cls(restored=user_ids)
        if kind == GATEWAY_DRAINED:
            return cls(drained=message.get("gateway_id"))
        if kind == PRIVACY_CHANGED:
            return cls(privacy_changed=user_ids)
        return cls(resumed=message.get("gateway_id")) if kind == GATEWAY_RESUMED else cls()


class ControlListener:
    """One listener for all sockets of a process."""

    def __init__(self, layer: Callable[[], ChannelLayer]) -> None:
        self._layer = layer
        self._channel: str | None = None

    async def next_notice(self) -> Notice:
        """Wait for the next notice. Raises Redis's errors; the next call joins the group again."""
        channel, self._channel = self._channel, None
        layer = self._layer()
        if channel is None:
            channel = await layer.new_channel()
            await layer.group_add(GROUP, channel)
        message = await layer.receive(channel)
        self._channel = channel
        return Notice.of(message)
