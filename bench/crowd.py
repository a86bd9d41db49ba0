"""Many connections of one process: made a few at a time, kept alive, left together."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from bench.frames import ERROR, HEARTBEAT
from bench.timeline import WrongDelivery
from bench.wire import Receive, Wire, connect

AT_A_TIME = 20
ATTEMPTS = 5
HEARTBEAT_EVERY = 20.0
QUIET = 2.0
PATIENCE = 60.0


@asynccontextmanager
async def connected(url: str, tokens: Sequence[str], receivers: Sequence[Receive]) -> AsyncIterator[dict[int, Wire]]:
    """A connection for each token, by its place, closed at the end. Who reconnects takes the old one's place."""
    gate, wires = asyncio.Semaphore(AT_A_TIME), dict[int, Wire]()

    async def one(number: int, token: str, receive: Receive) -> None:
        async with gate:
            wires[number] = await connect_patiently(url, token, receive)

    beating = asyncio.create_task(_keep_alive(wires))
    try:
        await asyncio.gather(*(one(number, *each) for number, each in enumerate(zip(tokens, receivers, strict=True))))
        yield wires
    finally:
        beating.cancel()
        for wire in wires.values():
            wire.close()
        await asyncio.sleep(0.3)


def require_open(wires: Mapping[int, Wire]) -> None:
    """Raises `WrongDelivery`: who counts connections has to have them."""
    closed = [wire.closed.result() for wire in wires.values() if not wire.is_open]
    if closed:
        raise WrongDelivery(f"the server closed {len(closed)} of {len(wires)} connections, the first with {closed[0]}")


async def connect_patiently(url: str, token: str, receive: Receive) -> Wire:
    """Again if need be: a machine that others keep busy may not answer in time, and the arrival is not measured."""
    for _ in range(ATTEMPTS - 1):
        try:
            return await connect(url, token, receive)
        except OSError:
            await asyncio.sleep(0.5)
    return await connect(url, token, receive)


async def quiet(progress: Callable[[], int]) -> None:
    """Return when `progress` stands still."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    last, now = -1, progress()
    while last != now and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(QUIET)
        last, now = now, progress()


def ignore(frame: bytes) -> None:
    """Nobody reads."""


class Complaints:
    """The `error` frames of a server that should have had no reason to send any."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def read(self, frame: bytes) -> None:
        if frame.startswith(ERROR):
            self.frames.append(frame)

    def require_none(self) -> None:
        """Raises `WrongDelivery`."""
        if self.frames:
            raise WrongDelivery(f"{len(self.frames)} errors, the first: {self.frames[0].decode()}")


async def _keep_alive(wires: Mapping[int, Wire]) -> None:
    """From the first connection on: the last may come much later."""
    while True:
        await asyncio.sleep(HEARTBEAT_EVERY)
        for wire in list(wires.values()):
            wire.write(HEARTBEAT)
            await asyncio.sleep(0)
