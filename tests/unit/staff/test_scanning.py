"""Offline scans: every page once, not faster than allowed."""

import time
from typing import Any

from foundation.stores.dynamodb.async_database import ScanPage
from staff.services.scanning import Pace, pages

PAGES = [["a", "b"], ["c"], []]


async def scan(start: Any) -> ScanPage:
    number = 0 if start is None else int(start["page"]["N"])
    following = {"page": {"N": str(number + 1)}} if number + 1 < len(PAGES) else None
    return ScanPage(items=[{"id": {"S": each}} for each in PAGES[number]], next_key=following)


async def test_every_item_comes_once() -> None:
    found = [item["id"]["S"] async for items in pages(scan, pace=Pace(1e6)) for item in items]
    assert found == ["a", "b", "c"]


async def test_the_pace_holds_on_average() -> None:
    pace, started = Pace(200.0), time.monotonic()
    for _ in range(5):
        await pace.take(4)
    assert time.monotonic() - started >= 4 * 4 / 200.0
