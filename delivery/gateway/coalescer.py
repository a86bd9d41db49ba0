"""Coalesces items into batches: items that arrive while a batch is being processed form the next one.

A thousand sockets that connect at once cost a handful of round trips on one connection.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Coalescer(Generic[T]):
    """For one event loop. Coalescers with the same lock take turns."""

    def __init__(self, process: Callable[[list[T]], Awaitable[None]], *, lock: asyncio.Lock | None = None) -> None:
        self._process = process
        self._waiting: list[T] = []
        self._lock = lock or asyncio.Lock()

    async def add(self, item: T) -> None:
        """Return when a batch with this item was processed. A failure is raised to the caller that started it."""
        self._waiting.append(item)
        async with self._lock:
            if self._waiting:
                batch, self._waiting = self._waiting, []
                await self._process(batch)
