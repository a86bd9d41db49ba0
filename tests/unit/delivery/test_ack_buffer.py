"""Acknowledgements are written concurrently, and coalesced while they wait."""

import asyncio
from collections.abc import Collection, Mapping
from typing import cast

from delivery.services.ack_buffer import CONCURRENT_WRITES, PAIRS_PER_WRITE, AckBuffer
from delivery.services.watermarks import Claim, Pair, Watermarks
from foundation.kernel.clock import SystemClock
from foundation.kernel.errors import ParleyError
from foundation.kernel.ids import ChatId, IdFactory, UserId

USER = UserId("user_1")


class SlowWatermarks:
    """Holds every write until it is released. `reached` is set when `expected` writes are in flight."""

    def __init__(self, expected: int) -> None:
        self.released = asyncio.Event()
        self.reached = asyncio.Event()
        self._expected = expected
        self.in_flight = 0
        self.most_in_flight = 0
        self.written: dict[Pair, int] = {}

    async def acknowledge_many(self, acks: Mapping[Pair, Collection[int]]) -> dict[Claim, ParleyError]:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        if self.in_flight == self._expected:
            self.reached.set()
        await self.released.wait()
        self.in_flight -= 1
        assert len(acks) <= PAIRS_PER_WRITE
        self.written |= {pair: max(sequences) for pair, sequences in acks.items()}
        return {}


def chats(count: int) -> list[ChatId]:
    ids = IdFactory(SystemClock())
    return [ids.chat() for _ in range(count)]


def refuse(error: ParleyError) -> None:
    raise AssertionError(error)


async def test_several_batches_are_in_flight_while_the_store_is_slow() -> None:
    store = SlowWatermarks(expected=CONCURRENT_WRITES)
    buffer = AckBuffer(cast(Watermarks, store))
    known = chats(PAIRS_PER_WRITE * (CONCURRENT_WRITES + 2))
    for chat_id in known:
        buffer.put(USER, chat_id, 1, on_refused=refuse)
    await store.reached.wait()
    store.released.set()
    await buffer.close()
    assert store.most_in_flight == CONCURRENT_WRITES
    assert store.written == {(USER, chat_id): 1 for chat_id in known}


async def test_what_arrives_during_a_write_is_coalesced_and_written_after_it() -> None:
    store = SlowWatermarks(expected=1)
    buffer = AckBuffer(cast(Watermarks, store))
    (chat_id,) = chats(1)
    buffer.put(USER, chat_id, 1, on_refused=refuse)
    await store.reached.wait()
    for sequence in (2, 5, 3):
        buffer.put(USER, chat_id, sequence, on_refused=refuse)
    store.released.set()
    await buffer.close()
    assert store.written == {(USER, chat_id): 5}
