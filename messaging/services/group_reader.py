"""Group reads: questions that arrive while a read is running share the next one, never the running one.

So a read always begins after every question it answers was asked, and is strongly consistent for each of them. A
thousand clients that ask at once cost a handful of reads, and nothing is cached.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import Generic, TypeVar

from prometheus_client import Histogram

from foundation.kernel.errors import Overloaded

SHARED = Histogram(
    "parley_group_read_questions",
    "Syncs and pages of history of one chat that are answered by one read of its log.",
    buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
)

CLOSE_TIMEOUT = 5.0

K = TypeVar("K")
Q = TypeVar("Q")
A = TypeVar("A")


class GroupReader(Generic[K, Q, A]):
    """Runs `read(key, questions)`, one at a time for each key and `limit` at a time in all. For one event loop.

    `read` answers the questions in their order; an exception in place of an answer is raised to that asker alone.
    `admission` makes a predicate for each read: the questions that it rejects wait for the next read. It must admit the
    first question.
    """

    def __init__(
        self,
        read: Callable[[K, Sequence[Q]], Awaitable[Sequence[A | Exception]]],
        *,
        limit: int,
        admission: Callable[[], Callable[[Q], bool]] = lambda: lambda _: True,
    ) -> None:
        self._read = read
        self._admission = admission
        self._slots = asyncio.Semaphore(limit)
        self._waiting: dict[K, list[tuple[Q, asyncio.Future[A]]]] = {}
        self._tasks: dict[K, asyncio.Task[None]] = {}
        self._is_closed = False

    def ask(self, key: K, question: Q) -> "asyncio.Future[A]":
        """Raises `Overloaded` after `close`."""
        if self._is_closed:
            raise Overloaded("The server is shutting down, try again", retry_after=1.0)
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append((question, future))
        if key not in self._tasks:
            self._tasks[key] = asyncio.ensure_future(self._serve(key))
        return future

    async def close(self) -> None:
        """Accept no more questions, and finish those that were asked if that takes no longer than `CLOSE_TIMEOUT`."""
        self._is_closed = True
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=CLOSE_TIMEOUT)

    async def _serve(self, key: K) -> None:
        """Read until no question waits. Each read queues behind those of other keys."""
        try:
            await self._serve_waiting(key)
        finally:
            del self._tasks[key]

    async def _serve_waiting(self, key: K) -> None:
        while key in self._waiting:
            async with self._slots:
                asked = self._take(key)
                SHARED.observe(len(asked))
                answers = await self._answers(key, [question for question, _ in asked])
            for (_, future), answer in zip(asked, answers, strict=True):
                if future.done():
                    continue
                if isinstance(answer, Exception):
                    # A copy each: one exception raised in several tasks would collect all their tracebacks.
                    future.set_exception(copy(answer))
                else:
                    future.set_result(answer)

    def _take(self, key: K) -> list[tuple[Q, "asyncio.Future[A]"]]:
        """The questions of the next read. The others keep their order."""
        admits = self._admission()
        taken: list[tuple[Q, asyncio.Future[A]]] = []
        left: list[tuple[Q, asyncio.Future[A]]] = []
        for asked in self._waiting.pop(key):
            (taken if admits(asked[0]) else left).append(asked)
        if left:
            self._waiting[key] = left
        return taken

    async def _answers(self, key: K, questions: Sequence[Q]) -> Sequence[A | Exception]:
        try:
            return await self._read(key, questions)
        except Exception as error:  # noqa: BLE001 - every asker gets the reason
            return [error] * len(questions)
