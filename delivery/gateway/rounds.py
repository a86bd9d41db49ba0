"""Many who want the same done, served together: who asks while a round is under way shares the next.

A thousand sockets that arrive at once cost a handful of round trips on one connection instead of a thousand on as many.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Rounds(Generic[T]):
    """Only for the event loop's thread."""

    def __init__(self, work: Callable[[list[T]], Awaitable[None]]) -> None:
        self._work = work
        self._waiting: list[T] = []
        self._under_way = asyncio.Lock()

    async def join(self, item: T) -> None:
        """Return when a round with this item is over. A round that fails raises for the one who began it."""
        self._waiting.append(item)
        async with self._under_way:
            if self._waiting:
                round_, self._waiting = self._waiting, []
                await self._work(round_)
