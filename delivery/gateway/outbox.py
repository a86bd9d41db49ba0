"""What waits to be written to one connection: bounded, in order, messages of a chat together.

A client that keeps up is written to at once. For one that does not, frames wait here; only then is there a task.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from delivery.gateway.frames import Frame, joined
from foundation.server.extension import Line

MAX_FRAMES = 1_000
MAX_BYTES = 4 * 1024 * 1024


class Outbox:
    """Only for the event loop's thread. Writes to the line, or by `send` where the server offers none."""

    def __init__(
        self, send: Callable[[str], Awaitable[None]], *, line: Line | None, overflow: Callable[[], None]
    ) -> None:
        self._send = send
        self._line = line
        self._overflow = overflow
        self._waiting: deque[Frame] = deque()
        self._bytes = 0
        self._writer: asyncio.Task[None] | None = None
        self._held = True
        self._closed = False
        # Nothing waits, and nothing keeps a frame from being written at once but the line itself.
        self._is_clear = False

    def put(self, frame: Frame) -> None:
        """Write a frame or queue it.

        A client that lets too much pile up is given over to `overflow`, and nothing more is kept.
        """
        if self._is_clear and self._line is not None and self._line.is_open:
            self._line.write(frame.wire)
            return
        if self._closed:
            return
        self._is_clear = False
        self._waiting.append(frame)
        self._bytes += len(frame.payload)
        if len(self._waiting) > MAX_FRAMES or self._bytes > MAX_BYTES:
            self.close()
            self._overflow()
            return
        self._start()

    def open_with(self, frame: Frame) -> None:
        """Begin to write, this frame before whatever has come in meanwhile."""
        if self._closed:
            return
        self._waiting.appendleft(frame)
        self._bytes += len(frame.payload)
        self._held = False
        self._start()

    def close(self) -> None:
        """Forget what waits and take nothing more."""
        self._closed = True
        self._is_clear = False
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
                if self._line is None:
                    await self._send(self._next().payload.decode())
                elif self._line.is_open:
                    self._line.write(self._next().wire)
                else:
                    await self._line.open.wait()
                    self._join()
            self._is_clear = not self._closed
        finally:
            self._writer = None

    def _next(self) -> Frame:
        frame = self._waiting.popleft()
        self._bytes -= len(frame.payload)
        return frame

    def _join(self) -> None:
        """What has piled up for one chat goes as one frame."""
        self._waiting = deque(joined(tuple(self._waiting)))
        self._bytes = sum(len(frame.payload) for frame in self._waiting)
