"""Control messages from other processes about sessions, users and gateways."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from foundation.kernel.ids import SessionId, UserId
from foundation.stores.redis.control import (
    GATEWAY_DRAINED,
    GATEWAY_RESUMED,
    GROUP,
    LISTENER_PROBE,
    PRIVACY_CHANGED,
    PUBLISH_TIMEOUT_SECONDS,
    SESSION_REVOKED,
    USER_RESTORED,
    USER_SUSPENDED,
)

log = logging.getLogger(__name__)

PROBE_EVERY = 0.2
CHECK_EVERY = 5.0
"""Seconds of silence after which a probe is sent, which has to arrive within as many."""


class ChannelLayer(Protocol):
    """The methods of a channel layer that a listener needs."""

    async def new_channel(self) -> str: ...

    async def group_add(self, group: str, channel: str) -> None: ...

    async def group_send(self, group: str, message: dict[str, Any]) -> None: ...

    async def receive(self, channel: str) -> dict[str, Any]: ...

    async def flush(self) -> None: ...

    def observe(self, on_connect: Callable[[], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class ControlNotice:
    """What other processes have to know. A message of an unknown type is an empty notice.

    `may_follow_a_gap`: notices before this one may have been lost; from now on none is, until the connection is.
    """

    ended: frozenset[SessionId] = frozenset()
    suspended: frozenset[UserId] = frozenset()
    restored: frozenset[UserId] = frozenset()
    drained: str | None = None
    resumed: str | None = None
    privacy_changed: frozenset[UserId] = frozenset()
    may_follow_a_gap: bool = False

    @classmethod
    def of(cls, message: dict[str, Any]) -> "ControlNotice":
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
    """One listener for all sockets of a process, on one event loop. `name` is unlike that of any other process.

    Whenever the layer has connected, the listener sends probes to the group until it receives one that it sent after
    that: only then it is certain to receive every notice. The layer does not see that a connection has gone silent, so
    after some silence the listener sends a probe too, and makes the layer connect anew if it does not arrive.
    """

    def __init__(self, layer: Callable[[], ChannelLayer], *, name: str) -> None:
        self._layer = layer
        self._name = name
        self._channel: str | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # Counts the connections that the layer has made, and the groups that were joined.
        self._epoch = 0
        self._confirmed_epoch = 0
        self._probing: asyncio.Task[None] | None = None

    async def next_notice(self) -> ControlNotice:
        """Wait for the next notice. Raises Redis's errors; the next call joins the group again."""
        channel, self._channel = self._channel, None
        layer = self._layer()
        if channel is None:
            channel = await self._join(layer)
        message = await self._receive(layer, channel)
        self._channel = channel
        return self._on_probe(message) if message.get("type") == LISTENER_PROBE else ControlNotice.of(message)

    async def _receive(self, layer: ChannelLayer, channel: str) -> dict[str, Any]:
        """Raises `ConnectionError` when Redis takes a probe and it does not arrive."""
        receiving = asyncio.ensure_future(layer.receive(channel))
        is_probed = False
        try:
            while True:
                await asyncio.wait([receiving], timeout=CHECK_EVERY)
                if receiving.done():
                    return receiving.result()
                if is_probed:
                    await layer.flush()
                    raise RedisConnectionError("Control messages do not arrive")
                is_probed = await self._send_probe()
        finally:
            receiving.cancel()

    async def _join(self, layer: ChannelLayer) -> str:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            layer.observe(self._on_connect)
        channel = await layer.new_channel()
        await layer.group_add(GROUP, channel)
        self._on_connect()
        return channel

    def _on_connect(self) -> None:
        """The layer also connects on the event loops of threads that publish: those connections do not listen."""
        if asyncio.get_running_loop() is not self._loop:
            return
        self._epoch += 1
        if self._probing is None or self._probing.done():
            self._probing = asyncio.ensure_future(self._probe())

    async def _probe(self) -> None:
        while self._confirmed_epoch < self._epoch:
            await self._send_probe()
            await asyncio.sleep(PROBE_EVERY)

    async def _send_probe(self) -> bool:
        """Whether Redis took it in time."""
        probe = {"type": LISTENER_PROBE, "listener": self._name, "epoch": self._epoch}
        try:
            async with asyncio.timeout(PUBLISH_TIMEOUT_SECONDS):
                await self._layer().group_send(GROUP, probe)
        except (RedisError, OSError) as error:
            log.info("a probe of the control group is not sent: %r", error)
            return False
        return True

    def _on_probe(self, probe: dict[str, Any]) -> ControlNotice:
        is_news = probe["listener"] == self._name and self._confirmed_epoch < probe["epoch"] == self._epoch
        if is_news:
            self._confirmed_epoch = self._epoch
        return ControlNotice(may_follow_a_gap=is_news)
