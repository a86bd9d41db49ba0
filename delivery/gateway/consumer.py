"""One WebSocket: reads frames in order, hands them to services, writes the answers.

Nothing here waits for a store: sends, acknowledgements and syncs run elsewhere and answer through the outbox, so a slow
store call stalls neither this socket nor another. Sends are handed over in the order they arrive.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any

from channels.consumer import AsyncConsumer
from channels.exceptions import StopConsumer

from delivery.gateway import frames, handshake
from delivery.gateway.closing import CLOSED, Close
from delivery.gateway.frames import Ack, Authenticate, BadFrame, Heartbeat, Request, SendMessage, SyncRequest
from delivery.gateway.hub import NEVER, Hub
from delivery.gateway.outbox import Outbox
from delivery.gateway.patience import Patience
from delivery.services.ack_buffer import AckBuffer
from delivery.services.watermarks import Pair
from delivery.stores.connections import Registration
from foundation.kernel.caller import Caller
from foundation.kernel.clock import Clock, to_iso
from foundation.kernel.errors import ParleyError, RateLimited, Unauthenticated, Unavailable
from foundation.kernel.ids import IdFactory
from foundation.kernel.promise import Promise
from foundation.server.extension import LINE
from messaging.domain import Draft
from messaging.services.committer import Committer
from messaging.services.history import History, Window

log = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

HEARTBEAT_INTERVAL = 30
TOKEN_GRACE = 60.0
MAX_UNDER_WAY = 1_000
MAX_ACKED = 1_000
FRAMES_IN_A_ROW = 64


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
    ids: IdFactory
    clock: Clock
    token_grace: float = TOKEN_GRACE


class GatewayConsumer(AsyncConsumer):  # type: ignore[misc]
    """Given its parts by `as_asgi(parts=...)`."""

    registration: Registration
    registered_at = NEVER
    deliver: Callable[[frames.Frame], None]

    def __init__(self, parts: GatewayParts) -> None:
        self._parts = parts
        self._patience = Patience()
        self._acked: set[Pair] = set()
        self._under_way = 0
        self._ended = False
        self._checking: asyncio.Task[None] | None = None

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Channels would wait for a channel layer too, with a task for every frame: the hub listens for all sockets."""
        self.scope, self.base_send = scope, send
        try:
            for number in itertools.count(1):
                await self.dispatch(await receive())
                if number % FRAMES_IN_A_ROW == 0:
                    await asyncio.sleep(0)  # a queue that is not empty would never let others have their turn
        except StopConsumer:
            pass
        finally:
            await self._leave()

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Channels would first close old database connections, in a thread, for every frame: sockets use none."""
        match message["type"]:
            case "websocket.receive":
                await self.websocket_receive(message)
            case "websocket.connect":
                await self.websocket_connect(message)
            case "websocket.disconnect":
                await self.websocket_disconnect(message)

    # The socket's life

    async def websocket_connect(self, event: dict[str, Any]) -> None:
        self._loop = asyncio.get_running_loop()
        knock = handshake.read(self.scope)
        self._line = self.scope.get("extensions", {}).get(LINE)
        self._outbox = Outbox(self._write, line=self._line, overflow=lambda: self.end(Close.TOO_SLOW))
        self.deliver = self._outbox.put
        if knock.token is None or not knock.comes_from(self._parts.allowed_origins):
            await self._refuse()
        try:
            self._caller = await self._verified(knock.token or "")
        except ParleyError as error:
            await self.send({"type": "websocket.accept", "subprotocol": knock.subprotocol})
            await self._refuse(_close_for(error))
        await self.send({"type": "websocket.accept", "subprotocol": knock.subprotocol})
        if self._parts.hub.draining:
            await self._refuse(Close.RESTART)
        await self._enter()

    async def _enter(self) -> None:
        """Reachable first, then `connected`: what the client syncs after that frame misses nothing."""
        hub, caller = self._parts.hub, self._caller
        self._last_heard = self._loop.time()
        self.registration = Registration(
            connection_id=self._parts.ids.connection(hub.gateway_id),
            user_id=caller.user_id,
            session_id=caller.session_id,
            device_id=caller.device_id,
            connected_at=to_iso(self._parts.clock.now()),
        )
        await hub.start()
        await hub.add(self)
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
        if self._line is not None:
            self._line.bring_frames(self._take_at_once)

    async def websocket_receive(self, event: dict[str, Any]) -> None:
        """A frame that had to wait its turn."""
        await self._checked()
        self._take(event.get("text"))
        await self._checked()
        if self._line is not None:
            self._line.frame_taken()

    def _take_at_once(self, text: str) -> bool:
        """Whether the frame was dealt with; one behind a token that was being checked goes the longer way."""
        if self._checking is not None:
            return False
        try:
            self._take(text)
        except Exception:
            log.exception("a frame could not be handled")
            self.end(Close.INTERNAL)
        return True

    async def _checked(self) -> None:
        """Nothing passes a token that is being checked."""
        if self._checking is not None:
            await self._checking
            self._checking = None

    def _take(self, text: str | None) -> None:
        """After the end, frames are only taken out of the way of the client's own goodbye."""
        if self._ended:
            return
        self._last_heard = self._loop.time()
        if text is None:
            self.end(Close.NOT_TEXT)
            return
        try:
            self._patience.require_pace(self._last_heard)
            request = frames.read(text)
            self._patience.good_frame()
        except RateLimited as error:
            self._complain(error, **frames.subject(text))
        except ParleyError as error:
            self._complain(error)
        else:
            self._handle(request)

    async def websocket_disconnect(self, event: dict[str, Any]) -> None:
        raise StopConsumer

    async def _leave(self) -> None:
        """However it ended. What was acknowledged is written now."""
        self._ended = True
        if self._checking is not None:
            self._checking.cancel()
        if hasattr(self, "_outbox"):
            self._outbox.close()
        self._parts.acks.hurry(self._acked)
        if hasattr(self, "registration"):
            await self._parts.hub.remove(self)

    # What the hub asks of a socket

    def end(self, close: Close) -> None:
        """Close once; what still waits to be written is dropped, the client finds it by syncing."""
        if not self._ended:
            self._ended = True
            CLOSED.labels(close.name.lower()).inc()
            self._outbox.close()
            self._run(self.send({"type": "websocket.close", "code": int(close)}))

    def overdue(self, now: float) -> Close | None:
        if now - self._last_heard > 2 * HEARTBEAT_INTERVAL:
            return Close.HEARTBEAT_MISSED
        if (self._parts.clock.now() - self._caller.expires_at).total_seconds() > self._parts.token_grace:
            return Close.UNAUTHENTICATED
        return None

    # Frames

    def _handle(self, request: Request) -> None:
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
                # What follows waits for the outcome.
                self._checking = asyncio.ensure_future(self._authenticate(request))

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
            self._complain(error, **about)

    def _ack(self, request: Ack) -> None:
        user_id, chat_id = self._caller.user_id, request.chat_id
        try:
            self._parts.acks.put(
                user_id,
                chat_id,
                request.sequence,
                refused=lambda error: self._parts.hub.post(self.deliver, frames.failed(error, chat_id=chat_id)),
            )
        except ParleyError as error:
            self._complain(error, chat_id=chat_id)
        else:
            self._note_acked((user_id, chat_id))

    def _note_acked(self, pair: Pair) -> None:
        """What to write at once when the connection ends; bounded, whatever a client acknowledges."""
        if len(self._acked) >= MAX_ACKED:
            self._parts.acks.hurry(self._acked)
            self._acked.clear()
        self._acked.add(pair)

    def _sync_chat(self, request: SyncRequest) -> None:
        chat_id = request.chat_id
        window = Window(after=request.last_acked_sequence, limit=request.limit)
        try:
            self._require_room()
            page = self._parts.history.asking(chat_id, self._caller.user_id, window)
            self._answer(page, lambda page: frames.sync_batch(chat_id, page), {"chat_id": chat_id})
        except ParleyError as error:
            self._complain(error, chat_id=chat_id)

    async def _authenticate(self, request: Authenticate) -> None:
        """Go on with a fresh token of the same session, by which the connection is known; any other ends it."""
        try:
            caller = self._same_session(await self._verified(request.access_token))
        except Unavailable as error:
            self._complain(error)
        except ParleyError as error:
            self.end(_close_for(error))
        except Exception:
            log.exception("a token could not be checked")
            self.end(Close.INTERNAL)
        else:
            self._caller = caller

    def _same_session(self, caller: Caller) -> Caller:
        if caller.session_id != self._caller.session_id:
            raise Unauthenticated("The token is another session's")
        return caller

    # Answers

    def _require_room(self) -> None:
        """Raises `Unavailable` for a client that asks faster than it is served."""
        if self._under_way >= MAX_UNDER_WAY:
            raise Unavailable("Too many of your requests are under way", retry_after=1.0)

    def _answer(
        self, awaited: "Promise[Any] | Future[Any]", told: Callable[[Any], frames.Frame], about: dict[str, str]
    ) -> None:
        """Write the answer when it is there."""
        self._under_way += 1
        post = self._parts.hub.post
        awaited.add_done_callback(lambda done: post(self._answered, done, told, about))

    def _answered(
        self, done: "Promise[Any] | Future[Any]", told: Callable[[Any], frames.Frame], about: dict[str, str]
    ) -> None:
        self._under_way -= 1
        error = done.exception()
        if error is None:
            self._outbox.put(told(done.result()))
        else:
            named = error if isinstance(error, ParleyError) else ParleyError(repr(error))
            self._outbox.put(frames.failed(named, **about))

    def _complain(self, error: ParleyError, **about: str) -> None:
        """Tell the client what is wrong; one that goes on regardless is closed."""
        self._outbox.put(frames.failed(error, **about))
        if isinstance(error, BadFrame) and self._patience.is_out_with_bad_frame():
            self.end(Close.PROTOCOL)
        if isinstance(error, RateLimited) and self._patience.is_out_with_flood(self._loop.time()):
            self.end(Close.RATE_LIMITED)

    async def _verified(self, token: str) -> Caller:
        return await self._loop.run_in_executor(self._parts.executor, self._parts.verify, token)

    async def _refuse(self, close: Close = Close.UNAUTHENTICATED) -> None:
        self._ended = True
        await self.send({"type": "websocket.close", "code": int(close)})
        raise StopConsumer

    async def _write(self, text: str) -> None:
        await self.send({"type": "websocket.send", "text": text})

    def _run(self, work: Awaitable[None]) -> None:
        self._farewell = asyncio.ensure_future(work)


def _close_for(error: ParleyError) -> Close:
    """A token that cannot be checked just now may be good: its client is to come again."""
    if isinstance(error, Unavailable):
        return Close.RESTART
    return Close.SESSION_REVOKED if error.code == "session_revoked" else Close.UNAUTHENTICATED
