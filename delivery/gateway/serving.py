"""Serves the frames of one connection by the services of a process, in the order of the frames.

Nothing here waits: sends, marks and syncs answer through the outbox when they are done. Only while a token is being
verified do later frames wait.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from delivery.domain import Mark, Pair
from delivery.gateway import frames
from delivery.gateway.abuse import AbuseLimits
from delivery.gateway.closing import Close
from delivery.gateway.presence import PresenceWatchers
from delivery.gateway.requests import (
    Ack,
    Authenticate,
    BadFrame,
    ChangeMessage,
    Heartbeat,
    Read,
    SendMessage,
    SyncRequest,
    Typing,
    WatchPresence,
    parse,
)
from delivery.gateway.sockets import Socket
from delivery.gateway.sync_turns import SyncTurns
from delivery.gateway.typing import TypingForwarder
from delivery.gateway.watch_queue import WatchBudgets, WatchQueue
from delivery.services.mark_buffer import MarkBuffer
from foundation.kernel.clock import Clock, to_iso
from foundation.kernel.errors import Overloaded, ParleyError, RateLimited, as_parley_error
from foundation.kernel.ids import ChatId, UserId
from messaging.domain import Draft
from messaging.services.committer import Committer
from messaging.services.history import History, Page, Window

log = logging.getLogger(__name__)

MAX_REQUESTS_IN_FLIGHT = 1_000
MAX_SYNCS_AT_ONCE = 4
MAX_MARKED = 1_000


@dataclass(frozen=True)
class Services:
    """What serves requests, for all connections of a process."""

    committer: Committer
    history: History
    marks: MarkBuffer
    typing: TypingForwarder
    watchers: PresenceWatchers
    clock: Clock
    syncs: SyncTurns = field(default_factory=SyncTurns)
    watch_budgets: WatchBudgets = field(default_factory=WatchBudgets)


class ConnectionRequests:
    """The requests of one connection, from the frame to the answer. For the event loop.

    `authenticate` takes the new token of an `authenticate` frame.
    """

    __slots__ = (
        "_authenticate",
        "_connection_id",
        "_deliver",
        "_end",
        "_in_flight",
        "_is_closed",
        "_limits",
        "_loop",
        "_marked",
        "_services",
        "_syncs_under_way",
        "_traceparent",
        "_user_id",
        "_verifying",
        "_waiting_syncs",
        "_watches",
        "last_frame_at",
    )

    def __init__(
        self,
        services: Services,
        socket: Socket,
        *,
        traceparent: str | None,
        authenticate: Callable[[str], Awaitable[None]],
    ) -> None:
        self._services = services
        self._user_id = socket.registration.user_id
        self._connection_id = socket.registration.connection_id
        self._deliver = socket.deliver
        self._end = socket.end
        self._traceparent = traceparent
        self._authenticate = authenticate
        self._loop = asyncio.get_running_loop()
        self.last_frame_at = self._loop.time()
        self._limits = AbuseLimits()
        self._verifying: asyncio.Future[None] | None = None
        self._marked: set[Pair] = set()
        self._in_flight = 0
        self._waiting_syncs: deque[SyncRequest] = deque()
        self._syncs_under_way = 0
        self._watches: WatchQueue | None = None
        self._is_closed = False

    def on_frame(self, text: str) -> bool:
        """Serve a frame as it arrives; False while a token is being verified: the frame is then to be received."""
        if self._verifying is not None:
            return False
        try:
            self._serve(text)
        except Exception:
            log.exception("a frame could not be handled")
            self._end(Close.INTERNAL)
        return True

    async def receive(self, text: str | None) -> None:
        """Serve a frame that arrived as an ASGI event, behind those before it."""
        await self._wait_for_token()
        self._serve(text)
        await self._wait_for_token()

    def send_error(self, error: ParleyError, **about: str) -> None:
        """Send an error frame; close the socket of a client that keeps causing them.

        `about` names the subject: a client message id, a chat.
        """
        self._deliver(frames.failed(error, **about))
        if isinstance(error, BadFrame) and self._limits.bad_frame():
            self._end(Close.PROTOCOL)
        if isinstance(error, RateLimited) and self._limits.refusal(self._loop.time()):
            self._end(Close.RATE_LIMITED)

    def close(self) -> None:
        """Start nothing more. Marks are written now, and nobody is typing here any more."""
        self._is_closed = True
        self._waiting_syncs.clear()
        if self._watches is not None:
            self._watches.close()
        self._services.marks.flush(self._marked)
        self._marked.clear()
        self._services.typing.end(self._connection_id, self._user_id)
        self._services.watchers.leave(self._connection_id)

    def cancel(self) -> None:
        """The socket is gone: no frame waits for a token any more."""
        if self._verifying is not None:
            self._verifying.cancel()

    def _serve(self, text: str | None) -> None:
        """Start to serve a frame; after the close, drop it. Refusals become error frames."""
        if self._is_closed:
            return
        self.last_frame_at = self._loop.time()
        if text is None:
            self._end(Close.NOT_TEXT)
            return
        try:
            request = parse(text)
            self._limits.bad_frames = 0
        except BadFrame as error:
            self.send_error(error, **error.about)
        else:
            _HANDLERS[type(request)](self, request)

    def _heartbeat(self, _: Heartbeat) -> None:
        now = to_iso(self._services.clock.now())
        self._deliver(frames.plain({"type": "heartbeat_ack", "server_time": now}))

    def _verify(self, request: Authenticate) -> None:
        self._verifying = asyncio.ensure_future(self._authenticate(request.access_token))

    async def _wait_for_token(self) -> None:
        if self._verifying is not None:
            await self._verifying
            self._verifying = None

    def _send_message(self, request: SendMessage) -> None:
        self._submit(
            Draft(
                chat_id=request.chat_id,
                sender_id=self._user_id,
                client_message_id=request.client_message_id,
                content=request.content,
                content_type=request.content_type,
                origin=self._connection_id,
                reply_to=request.reply_to,
                mentions=request.mentions,
                traceparent=self._traceparent,
            )
        )

    def _change_message(self, request: ChangeMessage) -> None:
        self._submit(
            Draft(
                chat_id=request.chat_id,
                sender_id=self._user_id,
                client_message_id=request.client_message_id,
                content=request.content,
                origin=self._connection_id,
                kind=request.kind,
                mentions=request.mentions,
                target=request.target,
                emoji=request.emoji,
                action=request.action,
                traceparent=self._traceparent,
            )
        )

    def _submit(self, draft: Draft) -> None:
        client_message_id, chat_id = draft.client_message_id, draft.chat_id
        about = {"client_message_id": client_message_id, "chat_id": chat_id}
        try:
            self._require_room()
            future = self._services.committer.submit(draft)
            self._answer(future, partial(frames.sent, client_message_id, chat_id), about)
        except ParleyError as error:
            self.send_error(error, **about)

    def _ack(self, request: Ack) -> None:
        self._mark(request.chat_id, Mark.ACKED, request.sequence, is_unread=not request.read)

    def _read(self, request: Read) -> None:
        self._mark(request.chat_id, Mark.READ, request.sequence)

    def _mark(self, chat_id: ChatId, mark: Mark, sequence: int, *, is_unread: bool = False) -> None:
        try:
            self._services.marks.put(
                self._user_id,
                chat_id,
                mark,
                sequence,
                on_refused=lambda error: self._deliver(frames.failed(error, chat_id=chat_id)),
                is_unread=is_unread,
            )
        except ParleyError as error:
            self.send_error(error, chat_id=chat_id)
        else:
            self._remember_marked((self._user_id, chat_id))

    def _remember_marked(self, pair: Pair) -> None:
        """Remember what to write at once when the connection ends; bounded, whatever a client marks."""
        if len(self._marked) >= MAX_MARKED:
            self._services.marks.flush(self._marked)
            self._marked.clear()
        self._marked.add(pair)

    def _sync_chat(self, request: SyncRequest) -> None:
        """Read a page, or let the request wait while enough of this connection's are being read."""
        try:
            self._require_room()
        except ParleyError as error:
            self.send_error(error, chat_id=request.chat_id)
        else:
            self._waiting_syncs.append(request)
            self._start_syncs()

    def _start_syncs(self) -> None:
        while self._waiting_syncs and self._syncs_under_way < MAX_SYNCS_AT_ONCE and not self._is_closed:
            self._syncs_under_way += 1
            self._services.syncs.add(self._user_id, partial(self._read_page, self._waiting_syncs.popleft()))

    def _read_page(self, request: SyncRequest) -> "asyncio.Future[Page] | None":
        """Begin to read a page; None if the connection is closed or the request is refused."""
        if self._is_closed:
            return None
        chat_id, window = request.chat_id, Window(after=request.last_acked_sequence, limit=request.limit)
        try:
            page = self._services.history.ask(chat_id, self._user_id, window)
        except ParleyError as error:
            self.send_error(error, chat_id=chat_id)
            self._loop.call_soon(self._sync_done, error)  # not at once: many may be refused
            return None
        self._answer(page, partial(frames.sync_batch, chat_id), {"chat_id": chat_id})
        page.add_done_callback(self._sync_done)
        return page

    def _sync_done(self, _: object) -> None:
        self._syncs_under_way -= 1
        self._start_syncs()

    def _typing(self, request: Typing) -> None:
        typing, chat_id, active = self._services.typing, request.chat_id, request.active
        if typing.is_due(self._connection_id, self._user_id, chat_id, active=active):
            self._start(typing.forward(self._user_id, chat_id, active=active), chat_id)

    def _watch_presence(self, request: WatchPresence) -> None:
        if self._watches is None:
            self._watches = WatchQueue(
                self._watch,
                charge=self._services.watch_budgets.of(self._connection_id, self._user_id),
                on_error=lambda error, chat_id: self._deliver(frames.failed(error, chat_id=chat_id)),
            )
        try:
            self._watches.put(request.chat_id, request.user_ids)
        except ParleyError as error:
            self.send_error(error, chat_id=request.chat_id)

    async def _watch(self, chat_id: ChatId, user_ids: Collection[UserId]) -> None:
        try:
            await self._services.watchers.watch(
                self._connection_id,
                self._user_id,
                self._deliver,
                chat_id=chat_id,
                user_ids=user_ids,
            )
        finally:
            if self._is_closed:
                self._services.watchers.leave(self._connection_id)

    def _start(self, work: Coroutine[Any, Any, None], chat_id: ChatId) -> None:
        """Run what has no answer of its own; only its error is sent."""
        try:
            self._require_room()
        except ParleyError as error:
            work.close()
            self.send_error(error, chat_id=chat_id)
        else:
            self._answer(asyncio.ensure_future(work), lambda _: None, {"chat_id": chat_id})

    def _require_room(self) -> None:
        """Raises `Overloaded` for a client that asks faster than it is served."""
        if self._in_flight + len(self._waiting_syncs) >= MAX_REQUESTS_IN_FLIGHT:
            raise Overloaded("Too many of your requests are under way", retry_after=1.0)

    def _answer(
        self, future: "asyncio.Future[Any]", render: Callable[[Any], frames.Frame | None], about: dict[str, str]
    ) -> None:
        """Send the result when the future is done, or its error."""
        self._in_flight += 1

        def on_done(done: "asyncio.Future[Any]") -> None:
            self._in_flight -= 1
            error = done.exception()
            if error is None:
                if (frame := render(done.result())) is not None:
                    self._deliver(frame)
            else:
                self._deliver(frames.failed(as_parley_error(error), **about))

        future.add_done_callback(on_done)


_HANDLERS: dict[type, Callable[[ConnectionRequests, Any], None]] = {
    SendMessage: ConnectionRequests._send_message,
    ChangeMessage: ConnectionRequests._change_message,
    Ack: ConnectionRequests._ack,
    Read: ConnectionRequests._read,
    SyncRequest: ConnectionRequests._sync_chat,
    Typing: ConnectionRequests._typing,
    WatchPresence: ConnectionRequests._watch_presence,
    Heartbeat: ConnectionRequests._heartbeat,
    Authenticate: ConnectionRequests._verify,
}
