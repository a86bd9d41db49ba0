"""The outgoing queue of one connection: bounded, in order, messages of a chat coalesced.

Frames to a client that keeps up are written at once. Only a client that does not has a queue and a task.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from delivery.gateway.frames import Frame, coalesce
from foundation.server.extension import SocketExtension

MAX_FRAMES = 1_000
MAX_BYTES = 4 * 1024 * 1024


class Outbox:
    """For one event loop. Writes through the socket extension, or by `send` where the server offers none."""

    def __init__(
        self,
        send: Callable[[str], Awaitable[None]],
        *,
        extension: SocketExtension | None,
        on_overflow: Callable[[], None],
    ) -> None:
        self._send = send
        self._extension = extension
        self._on_overflow = on_overflow
        self._waiting: deque[Frame] = deque()
        self._bytes = 0
        self._writer: asyncio.Task[None] | None = None
        self._held = True
        self._closed = False
        # True while nothing waits and frames may be written directly.
        self._is_direct = False

    def put(self, frame: Frame) -> None:
        """Write a frame or queue it. Calls `on_overflow`, and keeps nothing more, when the queue is full."""
        if self._is_direct and self._extension is not None and self._extension.is_writable:
            self._extension.write(frame.payload, frame.encoded)
            return
        if self._closed:
            return
        self._is_direct = False
        self._waiting.append(frame)
        self._bytes += len(frame.payload)
        if len(self._waiting) > MAX_FRAMES or self._bytes > MAX_BYTES:
            self.close()
            self._on_overflow()
            return
        self._start()

    def open_with(self, frame: Frame) -> None:
        """Begin to write: this frame first, then the frames that were put meanwhile."""
        if self._closed:
            return
        self._waiting.appendleft(frame)
        self._bytes += len(frame.payload)
        self._held = False
        self._start()

    def close(self) -> None:
        """Drop what waits and accept nothing more."""
        self._closed = True
        self._is_direct = False
        self._waiting.clear()
        self._bytes = 0
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
        finally:
            self._writer = None

    def _next(self) -> Frame:
        frame = self._waiting.popleft()
        self._bytes -= len(frame.payload)
        return frame

    def _coalesce(self) -> None:
        self._waiting = deque(coalesce(tuple(self._waiting)))
        self._bytes = sum(len(frame.payload) for frame in self._waiting)
