"""Items that arrive while a batch is being processed form the next one."""

import asyncio

import pytest

from delivery.gateway.coalescer import Coalescer


class Gate:
    """Records the batches; each waits until it is opened."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.is_open = asyncio.Event()

    async def process(self, batch: list[int]) -> None:
        self.batches.append(batch)
        await self.is_open.wait()


def start(coalescer: Coalescer[int], items: range) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(coalescer.add(item)) for item in items]


async def until_idle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_items_that_arrive_meanwhile_share_the_next_batch() -> None:
    gate = Gate()
    coalescer = Coalescer(gate.process)
    first = start(coalescer, range(1))
    await until_idle()
    others = start(coalescer, range(1, 4))
    await until_idle()
    gate.is_open.set()
    await asyncio.gather(*first, *others)
    assert gate.batches == [[0], [1, 2, 3]]


async def test_all_callers_of_a_batch_return_together() -> None:
    """A turn of the event loop for each of ten thousand would be minutes on a busy process."""
    gate, turns = Gate(), 0
    coalescer = Coalescer(gate.process)
    tasks = start(coalescer, range(1_000))
    await until_idle()
    gate.is_open.set()
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        turns += 1
    assert turns < 10


async def test_coalescers_with_one_lock_take_turns() -> None:
    one, other, lock = Gate(), Gate(), asyncio.Lock()
    tasks = start(Coalescer(one.process, lock=lock), range(2))
    await until_idle()
    tasks += start(Coalescer(other.process, lock=lock), range(2))
    await until_idle()
    assert (one.batches, other.batches) == ([[0, 1]], [])
    one.is_open.set()
    other.is_open.set()
    await asyncio.gather(*tasks)
    assert other.batches == [[0, 1]]


async def test_a_failure_is_raised_to_every_caller_and_the_next_batch_goes_on() -> None:
    failures = [ValueError("away")]

    async def process(batch: list[int]) -> None:
        if failures:
            raise failures.pop()

    coalescer = Coalescer(process)
    answers = await asyncio.gather(*start(coalescer, range(2)), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["away", "away"]
    await coalescer.add(2)


async def test_a_caller_that_is_cancelled_takes_nobody_with_it() -> None:
    gate = Gate()
    coalescer = Coalescer(gate.process)
    cancelled, other = start(coalescer, range(2))
    await until_idle()
    cancelled.cancel()
    gate.is_open.set()
    await other
    with pytest.raises(asyncio.CancelledError):
        await cancelled
