"""Frames to clients: encoded once for all their receivers, and the bounded queue in which they wait for a connection.

Frames from clients are in `requests`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import orjson

from delivery.gateway.queue_budget import Resize
from foundation.kernel.errors import ParleyError, RateLimited, Unavailable
from foundation.kernel.ids import ChatId
from foundation.server.extension import SocketExtension
from messaging.domain import Sent
from messaging.services.history import Page

log = logging.getLogger(__name__)

WHOLE_TEXT = 0x81
MAX_BATCH = 100
# As a page of history. Some clients take no frame of a megabyte.
MAX_BATCH_BYTES = 512 * 1024
# Of the queue of one connection.
MAX_FRAMES = 1_000
MAX_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Messages:
    """Messages of one chat, ascending, encoded once for any number of connections."""

    chat_id: str
    first: int
    last: int
    bodies: tuple[bytes, ...]

    @property
    def size(self) -> int:
        return sum(map(len, self.bodies))

    @cached_property
    def payload(self) -> bytes:
        if len(self.bodies) == 1:
            return b'{"type":"message",' + self.bodies[0][1:]
        chat_id, bodies = self.chat_id.encode(), b",".join(self.bodies)
        return b'{"type":"message_batch","chat_id":"%b","messages":[%b]}' % (chat_id, bodies)

    @cached_property
    def encoded(self) -> bytes:
        return _encode(self.payload)

    def follows(self, other: "Messages") -> bool:
        return self.chat_id == other.chat_id and self.first > other.last


@dataclass(frozen=True, slots=True)
class Plain:
    """Any other frame."""

    payload: bytes

    @property
    def encoded(self) -> bytes:
        return _encode(self.payload)


@dataclass(frozen=True)
class Shared:
    """A frame that several connections get, encoded once."""

    payload: bytes

    @cached_property
    def encoded(self) -> bytes:
        return _encode(self.payload)


Frame = Messages | Plain | Shared

_sync_batches: WeakKeyDictionary[Page, Shared] = WeakKeyDictionary()


def coalesce(frames: Sequence[Frame]) -> list[Frame]:
    """Join consecutive messages of one chat into batches of at most `MAX_BATCH` messages and `MAX_BATCH_BYTES`."""
    ready: list[Frame] = []
    run: list[Messages] = []
    count = size = 0
    for frame in frames:
        if not isinstance(frame, Messages):
            ready += (_join(run), frame) if run else (frame,)
            run = []
            continue
        count, size = count + len(frame.bodies), size + frame.size
        if run and not (frame.follows(run[-1]) and count <= MAX_BATCH and size <= MAX_BATCH_BYTES):
            ready.append(_join(run))
            run = []
        if not run:
            count, size = len(frame.bodies), frame.size
        run.append(frame)
    if run:
        ready.append(_join(run))
    return ready


def _join(run: Sequence[Messages]) -> Messages:
    if len(run) == 1:
        return run[0]
    bodies = tuple(body for messages in run for body in messages.bodies)
    return Messages(run[0].chat_id, run[0].first, run[-1].last, bodies)


def shared(frame: Mapping[str, Any]) -> Shared:
    return Shared(orjson.dumps(frame))


def plain(frame: Mapping[str, Any]) -> Plain:
    return Plain(orjson.dumps(frame))


def sent(client_message_id: str, chat_id: ChatId, answer: Sent) -> Plain:
    """The answer to a draft; without a sequence where it changed nothing. The id is the one that the sender gave."""
    if answer.unchanged:
        about = {"client_message_id": client_message_id, "chat_id": chat_id, "message_id": None, "created_at": None}
        return plain({"type": "ack", **about, **answer.to_json()})
    message = answer.message
    return plain(
        {
            "type": "ack",
            "client_message_id": client_message_id,
            "chat_id": chat_id,
            "message_id": message.message_id,
            "sequence": message.sequence,
            "created_at": message.created_at,
            "duplicate": answer.duplicate,
        }
    )


def sync_batch(chat_id: ChatId, page: Page) -> Shared:
    """One frame for everyone who got this page of the chat."""
    frame = _sync_batches.get(page)
    if frame is None:
        frame = _sync_batches[page] = Shared(
            b'{"type":"sync_batch","chat_id":"%b","messages":%b,"has_more":%b,"latest_sequence":%d}'
            % (chat_id.encode(), page.encoded_messages, b"true" if page.has_more else b"false", page.latest_sequence)
        )
    return frame


def failed(error: ParleyError, **about: str) -> Plain:
    """An error that the client can act on. `about` names its subject: a client message id, a chat.

    Details of an internal error are logged, not sent.
    """
    if error.code == ParleyError.code:
        log.error("a request failed: %s", error.detail, exc_info=error)
        error = ParleyError()
    retryable = isinstance(error, (RateLimited, Unavailable))
    frame = {"type": "error", "code": error.code, "detail": error.detail, "retryable": retryable, **about}
    if error.retry_after is not None:
        frame["retry_after"] = error.retry_after
    return plain(frame)


class Outbox:
    """The frames that wait for one connection, in order; messages of a chat are coalesced. For one event loop.

    Frames to a client that keeps up are written at once: only a client that does not has a queue and a task. Writes
    through the socket extension, or by `send` where the server offers none.
    """

    def __init__(
        self,
        send: Callable[[str], Awaitable[None]],
        *,
        extension: SocketExtension | None,
        resize: Resize,
        on_overflow: Callable[[], None],
        on_broken: Callable[[], None],
    ) -> None:
        self._send = send
        self._extension = extension
        self._resize = resize
        self._on_overflow = on_overflow
        self._on_broken = on_broken
        self._waiting: deque[Frame] = deque()
        self._bytes = 0
        self._writer: asyncio.Task[None] | None = None
        self._held = True
        self._closed = False
        # True while nothing waits and frames may be written directly.
        self._is_direct = False

    def put(self, frame: Frame) -> None:
        """Write a frame or queue it. Raises nothing, so that others' frames do not suffer from one socket.

        Calls `on_overflow` when the queue or the user's budget is full, `on_broken` when the socket cannot be written
        to, and then keeps nothing more.
        """
        if self._is_direct and self._extension is not None and self._extension.is_writable:
            try:
                self._extension.write(frame.payload, frame.encoded)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this socket's alone
                self._break(error)
            return
        if self._closed:
            return
        self._is_direct = False
        self._waiting.append(frame)
        is_affordable = self._set_bytes(self._bytes + len(frame.payload))
        if len(self._waiting) > MAX_FRAMES or self._bytes > MAX_BYTES or not is_affordable:
            self.close()
            self._on_overflow()
            return
        self._start()

    def open_with(self, frame: Frame) -> None:
        """Begin to write: this frame first, then the frames that were put meanwhile."""
        if self._closed:
            return
        self._waiting.appendleft(frame)
        self._set_bytes(self._bytes + len(frame.payload))
        self._held = False
        self._start()

    def close(self) -> None:
        """Drop what waits and accept nothing more."""
        self._closed = True
        self._is_direct = False
        self._waiting.clear()
        self._set_bytes(0)
        if self._writer is not None:
            self._writer.cancel()

    def _start(self) -> None:
        if self._writer is None and not self._held:
            self._writer = asyncio.ensure_future(self._drain())

    async def _drain(self) -> None:
        try:
            while self._waiting:
                if self._extension is None:
                    await self._send(self._next().payload.decode())
                elif self._extension.is_writable:
                    frame = self._next()
                    self._extension.write(frame.payload, frame.encoded)
                else:
                    await self._extension.writable.wait()
                    self._coalesce()
            self._is_direct = not self._closed
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this socket's alone
            self._break(error)
        finally:
            self._writer = None

    def _break(self, error: Exception) -> None:
        log.warning("a socket cannot be written to: %r", error)
        self.close()
        self._on_broken()

    def _next(self) -> Frame:
        frame = self._waiting.popleft()
        self._set_bytes(self._bytes - len(frame.payload))
        return frame

    def _coalesce(self) -> None:
        self._waiting = deque(coalesce(tuple(self._waiting)))
        self._set_bytes(sum(len(frame.payload) for frame in self._waiting))

    def _set_bytes(self, size: int) -> bool:
        """Whether the connection may hold as much."""
        self._bytes = size
        return self._resize(size)


def _encode(payload: bytes) -> bytes:
    """A whole text frame. Servers do not mask, so it is the same for every client."""
    size = len(payload)
    if size < 126:
        return bytes((WHOLE_TEXT, size)) + payload
    if size < 1 << 16:
        return bytes((WHOLE_TEXT, 126, size >> 8, size & 0xFF)) + payload
    return bytes((WHOLE_TEXT, 127)) + size.to_bytes(8) + payload
