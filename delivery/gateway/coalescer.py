"""Coalesces items into batches: items that arrive while a batch is being processed form the next one.

A thousand sockets that connect at once cost a handful of round trips on one connection.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Coalescer(Generic[T]):
    """For one event loop. Coalescers with the same lock take turns, batch by batch."""

    def __init__(self, process: Callable[[list[T]], Awaitable[None]], *, lock: asyncio.Lock | None = None) -> None:
        self._process = process
        self._waiting: list[T] = []
        self._next: asyncio.Task[None] | None = None
        self._lock = lock or asyncio.Lock()

    async def add(self, item: T) -> None:
        """Return when a batch with this item was processed. A failure is raised to every caller of the batch.

        Callers wait for their batch, not for the lock, which would let them pass one at a time.
        """
        self._waiting.append(item)
        if self._next is None:
            self._next = asyncio.create_task(self._process_next())
        # A caller that is cancelled leaves the batch to the others.
        await asyncio.shield(self._next)

    async def _process_next(self) -> None:
        async with self._lock:
            batch, self._waiting, self._next = self._waiting, [], None
            await self._process(batch)
