"""What waits to be written to one connection: bounded, in order, messages of a chat together.

An idle connection holds no task and no buffer beyond an empty queue.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from delivery.gateway.frames import Frame, Messages

MAX_FRAMES = 1_000
MAX_BYTES = 4 * 1024 * 1024
MAX_COALESCED = 100


class TrafficLight(Protocol):
    """Whether the client takes what is written to it."""

    open: asyncio.Event


class Outbox:
    """Only for the event loop's thread."""

    def __init__(
        self,
        write: Callable[[str], Awaitable[None]],
        *,
        light: TrafficLight | None,
        overflow: Callable[[], None],
    ) -> None:
        self._write = write
        self._light = light
        self._overflow = overflow
        self._waiting: deque[Frame] = deque()
        self._bytes = 0
        self._writer: asyncio.Task[None] | None = None
        self._held = True
        self._closed = False

    def put(self, frame: Frame) -> None:
        """Queue a frame. A client that lets too much pile up is given over to `overflow`, and nothing more is kept."""
        if self._closed:
            return
        self._waiting.append(frame)
        self._bytes += frame.size
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
        self._bytes += frame.size
        self._held = False
        self._start()

    def close(self) -> None:
        """Forget what waits and take nothing more."""
        self._closed = True
        self._waiting.clear()
        self._bytes = 0

    def _start(self) -> None:
        if self._writer is None and not self._held:
            self._writer = asyncio.ensure_future(self._drain())

    async def _drain(self) -> None:
        try:
            while self._waiting:
                if self._light is not None and not self._light.open.is_set():
                    await self._light.open.wait()
                    continue
                await self._write(self._next().text)
        finally:
            self._writer = None

    def _next(self) -> Frame:
        frame = self._take()
        while isinstance(frame, Messages) and self._waiting and len(frame.bodies) < MAX_COALESCED:
            later = self._waiting[0]
            if not isinstance(later, Messages) or not later.follows(frame):
                break
            self._take()
            frame += later
        return frame

    def _take(self) -> Frame:
        frame = self._waiting.popleft()
        self._bytes -= frame.size
        return frame
