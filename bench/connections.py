"""Many WebSocket connections in one process: opened with bounded concurrency, kept alive, closed together."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from bench.frames import ERROR, HEARTBEAT
from bench.timeline import InvalidRun
from bench.websocket import Receive, WebSocket, connect

CONNECT_CONCURRENCY = 20
CONNECT_ATTEMPTS = 5
CLOSE_DELAY, RETRY_DELAY, HEARTBEAT_INTERVAL = 0.3, 0.5, 20.0
DRAIN_INTERVAL, DRAIN_TIMEOUT = 2.0, 60.0


@asynccontextmanager
async def open_connections(
    url: str, tokens: Sequence[str], receivers: Sequence[Receive]
) -> AsyncIterator[dict[int, WebSocket]]:
    """Open a connection for each token, keyed by its index, and close all at the end.

    A caller that reconnects replaces the entry; the replacement is kept alive and closed like the others.
    """
    limit, sockets = asyncio.Semaphore(CONNECT_CONCURRENCY), dict[int, WebSocket]()

    async def open_one(number: int, token: str, receive: Receive) -> None:
        async with limit:
            sockets[number] = await connect_with_retry(url, token, receive)

    heartbeats = asyncio.create_task(_send_heartbeats(sockets))
    try:
        await asyncio.gather(
            *(open_one(number, *each) for number, each in enumerate(zip(tokens, receivers, strict=True)))
        )
        yield sockets
    finally:
        heartbeats.cancel()
        for socket in sockets.values():
            socket.close()
        await asyncio.sleep(CLOSE_DELAY)


def require_open(sockets: Mapping[int, WebSocket]) -> None:
    """Raises `InvalidRun` if the server has closed any of them."""
    closed = [socket.closed.result() for socket in sockets.values() if not socket.is_open]
    if closed:
        raise InvalidRun(f"the server closed {len(closed)} of {len(sockets)} connections, the first with {closed[0]}")


async def connect_with_retry(url: str, token: str, receive: Receive) -> WebSocket:
    """For connections whose set-up is not measured: a busy machine may not answer the first attempt in time."""
    for _ in range(CONNECT_ATTEMPTS - 1):
        try:
            return await connect(url, token, receive)
        except OSError:
            await asyncio.sleep(RETRY_DELAY)
    return await connect(url, token, receive)


async def drain(progress: Callable[[], int]) -> None:
    """Return when `progress` stops changing, or after `DRAIN_TIMEOUT`."""
    deadline = asyncio.get_running_loop().time() + DRAIN_TIMEOUT
    last, now = -1, progress()
    while last != now and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(DRAIN_INTERVAL)
        last, now = now, progress()


def ignore(frame: bytes) -> None:
    """A receiver that drops its frames."""


class ServerErrors:
    """Collects `error` frames: a valid run has none."""

    def __init__(self, frames: Sequence[bytes] = ()) -> None:
        self.frames = list(frames)

    def read(self, frame: bytes) -> bool:
        """Whether it is an error."""
        if is_error := frame.startswith(ERROR):
            self.frames.append(frame)
        return is_error

    def require_none(self) -> None:
        """Raises `InvalidRun`."""
        if self.frames:
            raise InvalidRun(f"{len(self.frames)} errors, the first: {self.frames[0].decode()}")


async def _send_heartbeats(sockets: Mapping[int, WebSocket]) -> None:
    """Runs while connections are still being opened, which may take longer than the server's idle timeout."""
    while True:
        await asyncio.sleep(HEARTBEAT_INTERVAL)
        for socket in list(sockets.values()):
            socket.write(HEARTBEAT)
            await asyncio.sleep(0)
