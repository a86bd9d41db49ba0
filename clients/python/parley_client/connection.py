"""One WebSocket at a time: reconnects with backoff and jitter, sends heartbeats and fresh tokens."""

import asyncio
import contextlib
import json
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

log = logging.getLogger(__name__)

Frame = dict[str, Any]
Url = str | Callable[[], str]
Token = str | Callable[[], Awaitable[str]]
UNAUTHENTICATED, SESSION_REVOKED = 4401, 4403
MAX_FRAME_BYTES = 4 * 1024 * 1024
"""A hundred messages in a frame, each as long as JSON can make it."""
MAX_DOUBLINGS = 32
"""Of the reconnect delay: a power of more than a thousand is no float."""


class Ended(Exception):
    """The session is over: it was revoked, or the server rejected the only token."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the server closed the connection for good ({code})")
        self.code = code


class Receiver(Protocol):
    """What a connection calls, in order: `on_open`, `on_frame` for each frame, `on_lost`."""

    async def on_open(self, hello: Frame) -> None: ...

    async def on_frame(self, frame: Frame) -> None: ...

    def on_lost(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Target:
    """Where to connect. The reconnect delay is random up to a bound that doubles, in seconds."""

    url: Url
    token: Token
    first_pause: float
    longest_pause: float

    def pick_url(self) -> str:
        return self.url if isinstance(self.url, str) else self.url()

    async def get_token(self) -> str:
        return self.token if isinstance(self.token, str) else await self.token()

    def pause(self, failures: int) -> float:
        bound = min(self.longest_pause, self.first_pause * 2 ** min(failures, MAX_DOUBLINGS))
        return random.uniform(0, bound)  # noqa: S311 - jitter


class Connection:
    """Stays connected until it is cancelled or the session ends."""

    def __init__(self, target: Target, receiver: Receiver) -> None:
        self._target = target
        self._receiver = receiver
        self._socket: ClientConnection | None = None
        self._token_in_use = ""
        self.connected = asyncio.Event()
        self.connections = 0
        self.closed_with: int | None = None

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    async def run(self) -> Ended:
        """Return when the session is over."""
        failures = 0
        while not self._is_final(self.closed_with):
            try:
                headers = await self._headers()
                async with connect(
                    self._target.pick_url(), additional_headers=headers, compression=None, max_size=MAX_FRAME_BYTES
                ) as socket:
                    hello = json.loads(await socket.recv())
                    failures = 0
                    await self._serve(socket, hello)
            except ConnectionClosed as closed:
                self.closed_with = closed.rcvd.code if closed.rcvd else None
                failures += 1
            except Exception as error:  # noqa: BLE001 - any failure, also of the token callable, is retried
                log.info("connection failed: %r", error)
                failures += 1
            finally:
                self._socket = None
                self.connected.clear()
                self._receiver.on_lost()
            await asyncio.sleep(self._target.pause(failures))
        return Ended(self.closed_with or SESSION_REVOKED)

    async def write(self, frame: Frame) -> None:
        """Drop the frame if there is no connection: every reconnect syncs and resends."""
        if self._socket is not None:
            with contextlib.suppress(ConnectionClosed):
                await self._socket.send(json.dumps(frame))

    def abort(self) -> None:
        """Drop the connection without a closing handshake, as a network change does."""
        if self._socket is not None:
            self._socket.transport.abort()

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.close()

    def _is_final(self, code: int | None) -> bool:
        """A revoked session is final; so is a rejected token without a callable to get another."""
        return code == SESSION_REVOKED or (code == UNAUTHENTICATED and isinstance(self._target.token, str))

    async def _headers(self) -> dict[str, str]:
        self._token_in_use = await self._target.get_token()
        return {"Authorization": f"Bearer {self._token_in_use}"}

    async def _serve(self, socket: ClientConnection, hello: Frame) -> None:
        self._socket = socket
        self.connections += 1
        heartbeats = asyncio.create_task(self._send_heartbeats(hello["heartbeat_interval"]))
        self.connected.set()
        try:
            await self._receiver.on_open(hello)
            async for text in socket:
                await self._receiver.on_frame(json.loads(text))
        finally:
            heartbeats.cancel()

    async def _send_heartbeats(self, interval: float) -> None:
        while True:
            await asyncio.sleep(interval)
            await self.write({"type": "heartbeat"})
            await self._reauthenticate()

    async def _reauthenticate(self) -> None:
        """Send a fresh token over the open connection."""
        try:
            token = await self._target.get_token()
        except Exception as error:  # noqa: BLE001 - the next heartbeat tries again
            log.info("no fresh token: %r", error)
            return
        if token != self._token_in_use:
            self._token_in_use = token
            await self.write({"type": "authenticate", "access_token": token})
