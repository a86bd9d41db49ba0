"""Serves the requests of one connection by the services of a process.

Nothing here waits: sends, marks and syncs answer through the outbox when they are done.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from delivery.domain import Mark, Pair
from delivery.gateway import frames
from delivery.gateway.presence import PresenceWatchers
from delivery.gateway.requests import (
    Ack,
    ChangeMessage,
    Read,
    Request,
    SendMessage,
    SyncRequest,
    Typing,
    WatchPresence,
)
from delivery.gateway.typing import TypingForwarder
from delivery.services.mark_buffer import MarkBuffer
from foundation.kernel.errors import ParleyError, Unavailable
from foundation.kernel.ids import ChatId, ConnectionId, UserId
from messaging.domain import Draft
from messaging.services.committer import Committer
from messaging.services.history import History, Window

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


class SendError(Protocol):
    """Sends an error frame. `about` names its subject: a client message id, a chat."""

    def __call__(self, error: ParleyError, **about: str) -> None: ...


class ConnectionRequests:
    """The requests of one connection, from the frame to the answer. For the event loop."""

    __slots__ = (
        "_connection_id",
        "_deliver",
        "_in_flight",
        "_is_closed",
        "_marked",
        "_send_error",
        "_services",
        "_syncs_under_way",
        "_traceparent",
        "_user_id",
        "_waiting_syncs",
    )

    def __init__(
        self,
        services: Services,
        *,
        user_id: UserId,
        connection_id: ConnectionId,
        traceparent: str | None,
        deliver: Callable[[frames.Frame], None],
        send_error: SendError,
    ) -> None:
        self._services = services
        self._user_id = user_id
        self._connection_id = connection_id
        self._traceparent = traceparent
        self._deliver = deliver
        self._send_error = send_error
        self._marked: set[Pair] = set()
        self._in_flight = 0
        self._waiting_syncs: deque[SyncRequest] = deque()
        self._syncs_under_way = 0
        self._is_closed = False

    def serve(self, request: Request) -> None:
        """Start to serve a request. Refusals become error frames."""
        _HANDLERS[type(request)](self, request)

    def close(self) -> None:
        """Start nothing more. Marks are written now, and nobody is typing here any more."""
        self._is_closed = True
        self._waiting_syncs.clear()
        self._services.marks.flush(self._marked)
        self._marked.clear()
        self._services.typing.end(self._connection_id, self._user_id)
        self._services.watchers.leave(self._connection_id)

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
            self._send_error(error, **about)

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
            self._send_error(error, chat_id=chat_id)
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
            self._send_error(error, chat_id=request.chat_id)
        else:
            self._waiting_syncs.append(request)
            self._start_syncs()

    def _start_syncs(self) -> None:
        while self._waiting_syncs and self._syncs_under_way < MAX_SYNCS_AT_ONCE and not self._is_closed:
            request = self._waiting_syncs.popleft()
            chat_id, window = request.chat_id, Window(after=request.last_acked_sequence, limit=request.limit)
            try:
                page = self._services.history.ask(chat_id, self._user_id, window)
            except ParleyError as error:
                self._send_error(error, chat_id=chat_id)
                continue
            self._syncs_under_way += 1
            self._answer(page, partial(frames.sync_batch, chat_id), {"chat_id": chat_id})
            page.add_done_callback(self._sync_done)

    def _sync_done(self, _: object) -> None:
        self._syncs_under_way -= 1
        self._start_syncs()

    def _typing(self, request: Typing) -> None:
        typing, chat_id, active = self._services.typing, request.chat_id, request.active
        if typing.is_due(self._connection_id, chat_id, active=active):
            self._start(typing.forward(self._user_id, chat_id, active=active), chat_id)

    def _watch_presence(self, request: WatchPresence) -> None:
        self._start(self._watch(request), request.chat_id)

    async def _watch(self, request: WatchPresence) -> None:
        try:
            await self._services.watchers.watch(
                self._connection_id,
                self._user_id,
                self._deliver,
                chat_id=request.chat_id,
                user_ids=request.user_ids,
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
            self._send_error(error, chat_id=chat_id)
        else:
            self._answer(asyncio.ensure_future(work), lambda _: None, {"chat_id": chat_id})

    def _require_room(self) -> None:
        """Raises `Unavailable` for a client that asks faster than it is served."""
        if self._in_flight + len(self._waiting_syncs) >= MAX_REQUESTS_IN_FLIGHT:
            raise Unavailable("Too many of your requests are under way", retry_after=1.0)

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
                named = error if isinstance(error, ParleyError) else ParleyError(repr(error))
                self._deliver(frames.failed(named, **about))

        future.add_done_callback(on_done)


_HANDLERS: dict[type, Callable[[ConnectionRequests, Any], None]] = {
    SendMessage: ConnectionRequests._send_message,
    ChangeMessage: ConnectionRequests._change_message,
    Ack: ConnectionRequests._ack,
    Read: ConnectionRequests._read,
    SyncRequest: ConnectionRequests._sync_chat,
    Typing: ConnectionRequests._typing,
    WatchPresence: ConnectionRequests._watch_presence,
}
