"""One WebSocket: parses frames in order, calls services, writes their answers.

Reading frames waits for no store: sends, acknowledgements and syncs answer through the outbox when they are done, so a
slow store stalls neither this socket nor another. Drafts are submitted in the order of their frames.
"""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

from channels.consumer import AsyncConsumer
from channels.exceptions import StopConsumer

from delivery.gateway import frames, handshake
from delivery.gateway.closing import CLOSED, Close
from delivery.gateway.frames import Ack, Authenticate, BadFrame, Heartbeat, Request, SendMessage, SyncRequest
from delivery.gateway.hub import UNREGISTERED, Hub
from delivery.gateway.outbox import Outbox
from delivery.services.ack_buffer import AckBuffer
from delivery.services.watermarks import Pair
from delivery.stores.connections import Registration
from foundation.kernel.caller import Caller
from foundation.kernel.clock import Clock, to_iso
from foundation.kernel.errors import ParleyError, RateLimited, Unauthenticated, Unavailable
from foundation.kernel.ids import IdFactory
from foundation.server.extension import SOCKET_EXTENSION
from messaging.domain import Draft
from messaging.services.committer import Committer
from messaging.services.history import History, Window

log = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

HEARTBEAT_INTERVAL = 30
TOKEN_GRACE = 60.0
OVERDUE_MARGIN = 0.1
MAX_REQUESTS_IN_FLIGHT = 1_000
MAX_SYNCS_AT_ONCE = 4
MAX_ACKED = 1_000
EVENTS_PER_TURN = 64

BAD_FRAMES_IN_A_ROW = 20
MAX_REFUSALS = 1_000
REFUSALS_WINDOW = 10.0


class AbuseLimits:
    """How many bad or refused frames a socket may send before it is closed. The server limits their pace."""

    def __init__(self) -> None:
        self._bad_frames = 0
        self._refusals: deque[float] = deque()

    def good_frame(self) -> None:
        self._bad_frames = 0

    def bad_frame(self) -> bool:
        """Count a bad frame; True when there were too many in a row."""
        self._bad_frames += 1
        return self._bad_frames >= BAD_FRAMES_IN_A_ROW

    def refusal(self, now: float) -> bool:
        """Count a refused send; True when there were too many within the window."""
        self._refusals.append(now)
        while self._refusals[0] < now - REFUSALS_WINDOW:
            self._refusals.popleft()
        return len(self._refusals) > MAX_REFUSALS


@dataclass(frozen=True)
class GatewayParts:
    """What the sockets of a process share."""

    hub: Hub
    committer: Committer
    history: History
    acks: AckBuffer
    verify: Callable[[str], Caller]
    executor: Executor
    allowed_origins: Sequence[str]
    allowed_hosts: Sequence[str]
    ids: IdFactory
    clock: Clock
    token_grace: float = TOKEN_GRACE


class GatewayConsumer(AsyncConsumer):  # type: ignore[misc]
    """Gets its parts by `as_asgi(parts=...)`."""

    registration: Registration
    registered_at = UNREGISTERED
    deliver: Callable[[frames.Frame], None]

    def __init__(self, parts: GatewayParts) -> None:
        self._parts = parts
        self._limits = AbuseLimits()
        self._acked: set[Pair] = set()
        self._in_flight = 0
        self._is_closed = False
        self._authenticating: asyncio.Task[None] | None = None
        self._overdue_check: asyncio.TimerHandle | None = None
        self._waiting_syncs: deque[SyncRequest] = deque()
        self._syncs_under_way = 0

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
        self._outbox = Outbox(self._write, extension=self._extension, on_overflow=lambda: self.end(Close.TOO_SLOW))
        self.deliver = self._outbox.put
        if hello.token is None or not self._is_from_allowed_origin(hello):
            await self._refuse()
        try:
            self._caller = await self._verify(hello.token or "")
        except ParleyError as error:
            await self.send({"type": "websocket.accept", "subprotocol": hello.subprotocol})
            await self._refuse(handshake.close_code_for(error))
        await self.send({"type": "websocket.accept", "subprotocol": hello.subprotocol})
        if self._parts.hub.draining:
            await self._refuse(Close.RESTART)
        await self._register()

    def _is_from_allowed_origin(self, hello: handshake.Handshake) -> bool:
        try:
            return hello.is_from(self._parts.allowed_origins, self._parts.allowed_hosts)
        except handshake.BadHandshake as error:
            log.info("a handshake is refused: %s", error)
            return False

    async def _register(self) -> None:
        """Register first, then send `connected`: a client that syncs after that frame misses nothing."""
        hub, caller = self._parts.hub, self._caller
        self._last_frame_at = self._loop.time()
        self.registration = Registration(
            connection_id=self._parts.ids.connection(hub.gateway_id),
            user_id=caller.user_id,
            session_id=caller.session_id,
            device_id=caller.device_id,
            connected_at=to_iso(self._parts.clock.now()),
        )
        await hub.start()
        await hub.add(self)
        self._check_overdue()
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
            self._extension.subscribe(self._on_frame)

    async def websocket_receive(self, event: dict[str, Any]) -> None:
        """Handle a frame that arrived as an ASGI event."""
        await self._wait_for_authentication()
        self._handle(event.get("text"))
        await self._wait_for_authentication()
        if self._extension is not None:
            self._extension.frame_handled()

    def _on_frame(self, text: str) -> bool:
        """Handle a frame directly; False while a token is being verified: the frame then waits as an ASGI event."""
        if self._authenticating is not None:
            return False
        try:
            self._handle(text)
        except Exception:
            log.exception("a frame could not be handled")
            self.end(Close.INTERNAL)
        return True

    async def _wait_for_authentication(self) -> None:
        if self._authenticating is not None:
            await self._authenticating
            self._authenticating = None

    def _handle(self, text: str | None) -> None:
        """Handle a frame; after the close, drop it."""
        if self._is_closed:
            return
        self._last_frame_at = self._loop.time()
        if text is None:
            self.end(Close.NOT_TEXT)
            return
        try:
            request = frames.parse(text)
            self._limits.good_frame()
        except ParleyError as error:
            self._send_error(error)
        else:
            self._serve(request)

    async def websocket_disconnect(self, event: dict[str, Any]) -> None:
        raise StopConsumer

    async def _leave(self) -> None:
        """Clean up, however the socket ended. Its acknowledgements are written now."""
        self._is_closed = True
        if self._authenticating is not None:
            self._authenticating.cancel()
        if self._overdue_check is not None:
            self._overdue_check.cancel()
        self._waiting_syncs.clear()
        if hasattr(self, "_outbox"):
            self._outbox.close()
        self._parts.acks.flush(self._acked)
        if hasattr(self, "registration"):
            await self._parts.hub.remove(self)

    # Called by the hub

    def end(self, close: Close) -> None:
        """Close the socket once. Frames that wait are dropped: the client finds their messages by syncing."""
        if not self._is_closed:
            self._is_closed = True
            CLOSED.labels(close.name.lower()).inc()
            self._outbox.close()
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
        silent = self._last_frame_at + 2 * HEARTBEAT_INTERVAL - now
        expired = (self._caller.expires_at - self._parts.clock.now()).total_seconds() + self._parts.token_grace
        return min((silent, Close.HEARTBEAT_MISSED), (expired, Close.UNAUTHENTICATED))

    # Requests

    def _serve(self, request: Request) -> None:
        match request:
            case SendMessage():
                self._send_message(request)
            case Ack():
                self._ack(request)
            case SyncRequest():
                self._sync_chat(request)
            case Heartbeat():
                self._outbox.put(
                    frames.plain({"type": "heartbeat_ack", "server_time": to_iso(self._parts.clock.now())})
                )
            case Authenticate():
                # Later frames wait for the outcome.
                self._authenticating = asyncio.ensure_future(self._authenticate(request))

    def _send_message(self, request: SendMessage) -> None:
        about = {"client_message_id": request.client_message_id, "chat_id": request.chat_id}
        draft = Draft(
            chat_id=request.chat_id,
            sender_id=self._caller.user_id,
            client_message_id=request.client_message_id,
            content=request.content,
            content_type=request.content_type,
            origin=self.registration.connection_id,
        )
        try:
            self._require_room()
            self._answer(self._parts.committer.submit(draft), frames.sent, about)
        except ParleyError as error:
            self._send_error(error, **about)

    def _ack(self, request: Ack) -> None:
        user_id, chat_id = self._caller.user_id, request.chat_id
        try:
            self._parts.acks.put(
                user_id,
                chat_id,
                request.sequence,
                on_refused=lambda error: self.deliver(frames.failed(error, chat_id=chat_id)),
            )
        except ParleyError as error:
            self._send_error(error, chat_id=chat_id)
        else:
            self._remember_acked((user_id, chat_id))

    def _remember_acked(self, pair: Pair) -> None:
        """Remember what to write at once when the connection ends; bounded, whatever a client acknowledges."""
        if len(self._acked) >= MAX_ACKED:
            self._parts.acks.flush(self._acked)
            self._acked.clear()
        self._acked.add(pair)

    def _sync_chat(self, request: SyncRequest) -> None:
        """Read a page, or let the request wait while enough of this connection's are being read."""
        try:
            self._require_room()
        except ParleyError as error:
            self._send_error(error, chat_id=request.chat_id)
        else:
            self._waiting_syncs.append(request)
            self._start_syncs()

    def _start_syncs(self) -> None:
        while self._waiting_syncs and self._syncs_under_way < MAX_SYNCS_AT_ONCE and not self._is_closed:
            request = self._waiting_syncs.popleft()
            chat_id, window = request.chat_id, Window(after=request.last_acked_sequence, limit=request.limit)
            try:
                page = self._parts.history.ask(chat_id, self._caller.user_id, window)
            except ParleyError as error:
                self._send_error(error, chat_id=chat_id)
                continue
            self._syncs_under_way += 1
            self._answer(page, partial(frames.sync_batch, chat_id), {"chat_id": chat_id})
            page.add_done_callback(self._sync_done)

    def _sync_done(self, _: object) -> None:
        self._syncs_under_way -= 1
        self._start_syncs()

    async def _authenticate(self, request: Authenticate) -> None:
        """Continue with a fresh token of the same session; a token of another session closes the socket."""
        try:
            caller = self._require_same_session(await self._verify(request.access_token))
        except Unavailable as error:
            self._send_error(error)
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

    # Answers

    def _require_room(self) -> None:
        """Raises `Unavailable` for a client that asks faster than it is served."""
        if self._in_flight + len(self._waiting_syncs) >= MAX_REQUESTS_IN_FLIGHT:
            raise Unavailable("Too many of your requests are under way", retry_after=1.0)

    def _answer(
        self, future: "asyncio.Future[Any]", render: Callable[[Any], frames.Frame], about: dict[str, str]
    ) -> None:
        """Send the result when the future is done, or its error."""
        self._in_flight += 1

        def on_done(done: "asyncio.Future[Any]") -> None:
            self._in_flight -= 1
            error = done.exception()
            if error is None:
                self._outbox.put(render(done.result()))
            else:
                named = error if isinstance(error, ParleyError) else ParleyError(repr(error))
                self._outbox.put(frames.failed(named, **about))

        future.add_done_callback(on_done)

    def _send_error(self, error: ParleyError, **about: str) -> None:
        """Send an error frame; close the socket of a client that keeps causing them."""
        self._outbox.put(frames.failed(error, **about))
        if isinstance(error, BadFrame) and self._limits.bad_frame():
            self.end(Close.PROTOCOL)
        if isinstance(error, RateLimited) and self._limits.refusal(self._loop.time()):
            self.end(Close.RATE_LIMITED)

    async def _verify(self, token: str) -> Caller:
        return await self._loop.run_in_executor(self._parts.executor, self._parts.verify, token)

    async def _refuse(self, close: Close = Close.UNAUTHENTICATED) -> None:
        self._is_closed = True
        await self.send({"type": "websocket.close", "code": int(close)})
        raise StopConsumer

    async def _write(self, text: str) -> None:
        await self.send({"type": "websocket.send", "text": text})
