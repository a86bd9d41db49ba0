"""One WebSocket, from its handshake to its end. Its frames are served by `ConnectionRequests`.

Reading frames waits for no store, so a slow store stalls neither this socket nor another.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

from channels.consumer import AsyncConsumer
from channels.exceptions import StopConsumer

from delivery.gateway import frames, handshake
from delivery.gateway.closing import CLOSED, Close
from delivery.gateway.hub import UNREGISTERED, Hub
from delivery.gateway.pace import ConnectPace, FramePace
from delivery.gateway.queue_budget import QueueBudget
from delivery.gateway.serving import ConnectionRequests, Services
from delivery.stores.connections import Registration
from foundation.kernel.caller import Caller
from foundation.kernel.clock import Clock, to_iso
from foundation.kernel.errors import ParleyError, Unauthenticated, Unavailable
from foundation.kernel.ids import IdFactory
from foundation.kernel.tracing import trace_id_of
from foundation.rest.origins import AllowedOrigins
from foundation.server.extension import SOCKET_EXTENSION

log = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

HEARTBEAT_INTERVAL = 30
OVERDUE_MARGIN = 0.1
EVENTS_PER_TURN = 64


@dataclass(frozen=True)
class GatewayParts:
    """What the sockets of a process share."""

    hub: Hub
    pace: ConnectPace
    services: Services
    verify: Callable[[str], Awaitable[Caller]]
    allowed_origins: AllowedOrigins
    allowed_hosts: Sequence[str]
    ids: IdFactory
    clock: Clock
    token_grace: float
    frame_pace: FramePace = field(default_factory=FramePace)
    queue_budget: QueueBudget = field(default_factory=QueueBudget)


class GatewayConsumer(AsyncConsumer):  # type: ignore[misc]
    """Gets its parts by `as_asgi(parts=...)`."""

    registration: Registration
    registered_at = UNREGISTERED
    deliver: Callable[[frames.Frame], None]

    def __init__(self, parts: GatewayParts) -> None:
        self._parts = parts
        self._is_closed = False
        self._overdue_check: asyncio.TimerHandle | None = None

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Instead of Channels' own loop, which listens to a channel layer with a task for every frame."""
        self.scope, self.base_send = scope, send
        try:
            for number in itertools.count(1):
                await self.dispatch(await receive())
                if number % EVENTS_PER_TURN == 0:
                    await asyncio.sleep(0)  # receiving from a queue that is not empty does not yield to other tasks
        except StopConsumer:
            pass
        finally:
            await self._leave()

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Instead of Channels' own, which closes old database connections in a thread for every frame."""
        match message["type"]:
            case "websocket.receive":
                await self.websocket_receive(message)
            case "websocket.connect":
                await self.websocket_connect(message)
            case "websocket.disconnect":
                await self.websocket_disconnect(message)

    # The life of a socket

    async def websocket_connect(self, event: dict[str, Any]) -> None:
        self._loop = asyncio.get_running_loop()
        hello = handshake.parse(self.scope)
        self._extension = self.scope.get("extensions", {}).get(SOCKET_EXTENSION)
        token = hello.token
        if token is None or not self._is_from_allowed_origin(hello):
            await self._refuse()
        try:
            self._parts.pace.require(token)
            self._caller = await self._parts.verify(token)
        except ParleyError as error:
            await self.send({"type": "websocket.accept", "subprotocol": hello.subprotocol})
            await self._refuse(handshake.close_code_for(error))
        await self.send({"type": "websocket.accept", "subprotocol": hello.subprotocol})
        if self._parts.hub.draining:
            await self._refuse(Close.RESTART)
        await self._register(hello)

    def _is_from_allowed_origin(self, hello: handshake.Handshake) -> bool:
        try:
            return hello.is_from(self._parts.allowed_origins, self._parts.allowed_hosts)
        except handshake.BadHandshake as error:
            log.info("a handshake is refused: %s", error)
            return False

    async def _register(self, hello: handshake.Handshake) -> None:
        """Register first, then send `connected`: a client that syncs after that frame misses nothing."""
        hub, caller = self._parts.hub, self._caller
        self.registration = Registration(
            connection_id=self._parts.ids.connection(hub.gateway_id),
            user_id=caller.user_id,
            session_id=caller.session_id,
            device_id=caller.device_id,
            connected_at=to_iso(self._parts.clock.now()),
        )
        self._outbox = frames.Outbox(
            self._write,
            extension=self._extension,
            resize=self._parts.queue_budget.open(caller.user_id),
            on_overflow=lambda: self.end(Close.TOO_SLOW),
            on_broken=lambda: self.end(Close.RESTART),
        )
        self.deliver = self._outbox.put
        self._requests = ConnectionRequests(
            self._parts.services, self, traceparent=hello.traceparent, authenticate=self._authenticate
        )
        await hub.start()
        await hub.add(self)
        self._check_overdue()
        _log_connected(self.registration, hello)
        self._outbox.open_with(
            frames.plain(
                {
                    "type": "connected",
                    "connection_id": self.registration.connection_id,
                    "user_id": caller.user_id,
                    "session_id": caller.session_id,
                    "heartbeat_interval": HEARTBEAT_INTERVAL,
                }
            )
        )
        if self._extension is not None:
            self._extension.subscribe(
                self._requests.on_frame, grant=partial(self._parts.frame_pace.grant, caller.user_id)
            )

    async def websocket_receive(self, event: dict[str, Any]) -> None:
        """Serve a frame that arrived as an ASGI event: all of them, where the server has no socket extension."""
        await self._requests.receive(event.get("text"))
        if self._extension is not None:
            self._extension.frame_handled()

    async def websocket_disconnect(self, event: dict[str, Any]) -> None:
        raise StopConsumer

    async def _leave(self) -> None:
        """Clean up, however the socket ended. Its acknowledgements are written now."""
        self._is_closed = True
        if self._overdue_check is not None:
            self._overdue_check.cancel()
        if hasattr(self, "_outbox"):
            self._outbox.close()
        if hasattr(self, "registration"):
            self._requests.close()
            self._requests.cancel()
            await self._parts.hub.remove(self)

    # Called by the hub

    def end(self, close: Close) -> None:
        """Close the socket once. Frames that wait are dropped: the client finds their messages by syncing."""
        if not self._is_closed:
            self._is_closed = True
            CLOSED.labels(close.name.lower()).inc()
            self._outbox.close()
            self._requests.close()
            self._closing = asyncio.ensure_future(self.send({"type": "websocket.close", "code": int(close)}))

    # Timeouts

    def _check_overdue(self) -> None:
        """Close the socket if a heartbeat is missed or the token has expired; check again when it may be."""
        if self._is_closed:
            return
        seconds, close = self.overdue_in(self._loop.time())
        if seconds < 0:
            self.end(close)
        else:
            self._overdue_check = self._loop.call_later(seconds + OVERDUE_MARGIN, self._check_overdue)

    def overdue_in(self, now: float) -> tuple[float, Close]:
        """In how many seconds the socket is to be closed, as things are now, and why."""
        silent = self._requests.last_frame_at + 2 * HEARTBEAT_INTERVAL - now
        expired = (self._caller.expires_at - self._parts.clock.now()).total_seconds() + self._parts.token_grace
        return min((silent, Close.HEARTBEAT_MISSED), (expired, Close.UNAUTHENTICATED))

    # Tokens

    async def _authenticate(self, token: str) -> None:
        """Continue with a fresh token of the same session; a token of another session closes the socket."""
        try:
            caller = self._require_same_session(await self._parts.verify(token))
        except Unavailable as error:
            self._requests.send_error(error)
        except ParleyError as error:
            self.end(handshake.close_code_for(error))
        except Exception:
            log.exception("a token could not be verified")
            self.end(Close.INTERNAL)
        else:
            self._caller = caller

    def _require_same_session(self, caller: Caller) -> Caller:
        if caller.session_id != self._caller.session_id:
            raise Unauthenticated("The token is another session's")
        return caller

    async def _refuse(self, close: Close = Close.UNAUTHENTICATED) -> NoReturn:
        """Close, and end the consumer: raises `StopConsumer`."""
        self._is_closed = True
        await self.send({"type": "websocket.close", "code": int(close)})
        raise StopConsumer

    async def _write(self, text: str) -> None:
        await self.send({"type": "websocket.send", "text": text})


def _log_connected(registration: Registration, hello: handshake.Handshake) -> None:
    ids: dict[str, str] = {"connection_id": registration.connection_id}
    if hello.traceparent is not None:
        ids["trace_id"] = trace_id_of(hello.traceparent)
    log.debug("connected %s", registration.connection_id, extra=ids)
