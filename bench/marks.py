"""Marks a second that one process writes on a store that answers late: python -m bench.marks [--delay 10].

Measures how many requests are in flight, not their cost: the store is a timer in this process, so the signing, HTTP
and decoding of a real one are left out.
"""

import argparse
import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import uvloop

from chats.services.posting import Posting
from delivery.domain import Mark, Marks, Pair
from delivery.services.mark_buffer import INTERVAL, MarkBuffer
from delivery.services.watermarks import Watermarks
from delivery.stores.watermarks import WatermarkStore
from foundation.kernel.clock import SystemClock
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.errors import ParleyError
from foundation.kernel.ids import ChatId, IdFactory, UserId
from foundation.stores.dynamodb import AsyncDatabase

PAIRS = 12_000
"""Each moves its mark once a second: more than can be written, so that some always wait."""
TICK = 0.005
SECONDS = 5.0


@dataclass(slots=True)
class LateStore:
    """Every user is a member of every chat, whose latest sequence is out of reach."""

    delay: float
    written: int = 0

    async def batch_get(self, lookups: Mapping[Any, Any]) -> Any:
        await asyncio.sleep(self.delay)

    async def advance(self, pair: Pair, mark: Mark, sequence: int, *, now: datetime, is_unread: bool) -> Marks:
        await asyncio.sleep(self.delay)
        self.written += 1
        return Marks(acked=sequence)

    def membership_lookup(self, pairs: Collection[tuple[ChatId, UserId]]) -> dict[str, Any]:
        return {}

    def counter_lookup(self, chat_ids: Collection[ChatId]) -> dict[str, Any]:
        return {}

    def members_among(self, found: Any, pairs: Collection[tuple[ChatId, UserId]]) -> Any:
        return pairs

    def counters_among(self, found: Any) -> Any:
        return _Latest()


class _Latest(dict[ChatId, int]):
    def __missing__(self, chat_id: ChatId) -> int:
        return 2**53

    def __contains__(self, chat_id: object) -> bool:
        return True


def buffer_on(store: LateStore) -> MarkBuffer:
    watermarks = Watermarks(
        database=cast(AsyncDatabase, store),
        store=cast(WatermarkStore, store),
        posting=cast(Posting, store),
        cursors=CursorCodec("unused"),
        clock=SystemClock(),
    )
    return MarkBuffer(watermarks)


def make_pairs(count: int) -> list[Pair]:
    ids = IdFactory(SystemClock())
    return [(ids.user(), ids.chat()) for _ in range(count)]


async def measure(store: LateStore, *, seconds: float = SECONDS, pairs: int = PAIRS) -> float:
    """Marks written a second, of pairs that each move their mark once a second."""
    buffer, known = buffer_on(store), make_pairs(pairs)
    started, asked = time.monotonic(), 0
    while (passed := time.monotonic() - started) < seconds:
        due = int(passed / INTERVAL * pairs)
        for number in range(asked, due):
            buffer.put(*known[number % pairs], Mark.ACKED, 1 + number // pairs, on_refused=_fail)
        asked = due
        await asyncio.sleep(TICK)
    return float(store.written / (time.monotonic() - started))


def _fail(error: ParleyError) -> None:
    raise error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay", type=float, default=10, help="milliseconds of every request to the store")
    delay = parser.parse_args().delay
    store = LateStore(delay / 1000)
    rate = uvloop.run(measure(store))
    cpu = time.process_time() / store.written * 1000
    print(f"{rate:,.0f} marks a second on a store that answers after {delay:g} ms, {cpu:.3f} ms of CPU each")  # noqa: T201 - the result


if __name__ == "__main__":
    main()
