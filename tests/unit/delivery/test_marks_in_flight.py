"""How many marks are written at once on a store that answers late."""

import asyncio
from typing import Any

from bench.marks import LateStore, buffer_on, make_pairs, measure
from delivery.domain import Mark, Marks
from delivery.services.mark_buffer import BACKLOG_PER_WRITE, CONCURRENT_WRITES
from delivery.services.watermarks import WRITES_IN_FLIGHT


class Holding(LateStore):
    """Holds every write until it is released."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.released = asyncio.Event()
        self.in_flight = self.most = 0

    async def advance(self, *args: Any, **fields: Any) -> Marks:
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        await self.released.wait()
        self.in_flight -= 1
        self.written += 1
        return Marks(acked=1)


async def test_writes_in_flight_are_bounded_while_other_batches_are_read() -> None:
    store = Holding()
    buffer = buffer_on(store)
    known = make_pairs(BACKLOG_PER_WRITE * CONCURRENT_WRITES)
    for pair in known:
        buffer.put(*pair, Mark.ACKED, 1, on_refused=lambda error: None)
    async with asyncio.timeout(10):
        while store.in_flight < WRITES_IN_FLIGHT or len(buffer._writes) < CONCURRENT_WRITES:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0)
    store.released.set()
    await buffer.close()
    assert store.most == WRITES_IN_FLIGHT
    assert store.written == len(known)


async def test_the_benchmark_writes() -> None:
    assert await measure(LateStore(0.0), seconds=0.1, pairs=1_000) > 0
