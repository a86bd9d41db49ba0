"""Offline scans: whole tables, page by page, at a limited rate, for operators' tools that say so."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from foundation.stores.dynamodb import RawItem
from foundation.stores.dynamodb.async_database import ScanPage

PAGE = 200
ITEMS_PER_SECOND = 1000.0


class OnProgress(Protocol):
    """Is told how far a long step is. `total` is unknown for a scan."""

    def __call__(self, stage: str, done: int, total: int | None = None) -> None: ...


def no_progress(stage: str, done: int, total: int | None = None) -> None:
    """For callers without a terminal."""


class Pace:
    """Lets through `per_second` units on average, without a burst after a pause."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._due = 0.0

    async def take(self, units: int) -> None:
        now = time.monotonic()
        self._due = max(self._due, now) + units / self._per_second
        if self._due - now > units / self._per_second:
            await asyncio.sleep(self._due - now - units / self._per_second)


Scan = Callable[[RawItem | None], Awaitable[ScanPage]]


async def pages(scan: Scan, *, pace: Pace) -> AsyncIterator[list[RawItem]]:
    """Every item of a table, once the pace allows."""
    start: RawItem | None = None
    while True:
        page = await scan(start)
        if page.items:
            yield page.items
        if page.next_key is None:
            return
        start = page.next_key
        await pace.take(len(page.items))
