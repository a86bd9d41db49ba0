"""Group reads: who asks while a read is under way shares the next one, never the running one.

So a read always begins after every question it answers was asked, and stays strongly consistent for each of them. A
thousand clients that ask at once cost a handful of reads, and nothing is kept beyond a read.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Generic, TypeVar

from prometheus_client import Histogram

from messaging.errors import Overloaded

SHARED = Histogram(
    "parley_group_read_questions",
    "Questions answered by one group read.",
    buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
)

K = TypeVar("K")
Q = TypeVar("Q")
A = TypeVar("A")


class GroupReader(Generic[K, Q, A]):
    """Runs `read(key, questions)` on the executor, once at a time for each key. Thread-safe.

    `read` answers the questions in their order; an exception in place of an answer is raised to that asker alone.
    """

    def __init__(self, read: Callable[[K, Sequence[Q]], Sequence[A | Exception]], *, executor: Executor) -> None:
        self._read = read
        self._executor = executor
        self._lock = threading.Lock()
        self._waiting: dict[K, list[tuple[Q, Future[A]]]] = {}
        self._under_way: set[K] = set()

    def ask(self, key: K, question: Q) -> "Future[A]":
        answer: Future[A] = Future()
        answer.set_running_or_notify_cancel()
        with self._lock:
            self._waiting.setdefault(key, []).append((question, answer))
            if key in self._under_way:
                return answer
            self._under_way.add(key)
        self._start(key)
        return answer

    def _start(self, key: K) -> None:
        """Queue a round behind those of other keys, so that a busy key does not starve the rest."""
        try:
            self._executor.submit(self._round, key)
        except RuntimeError:
            with self._lock:
                self._under_way.discard(key)
                refused = self._waiting.pop(key, [])
            for _, answer in refused:
                answer.set_exception(Overloaded("The server is shutting down, try again", retry_after=1.0))

    def _round(self, key: K) -> None:
        with self._lock:
            asked = self._waiting.pop(key)
        SHARED.observe(len(asked))
        for (_, answer), outcome in zip(asked, self._outcomes(key, [question for question, _ in asked]), strict=True):
            if isinstance(outcome, Exception):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)
        with self._lock:
            if key not in self._waiting:
                self._under_way.discard(key)
                return
        self._start(key)

    def _outcomes(self, key: K, questions: Sequence[Q]) -> Sequence[A | Exception]:
        try:
            return self._read(key, questions)
        except Exception as error:  # noqa: BLE001 - whatever went wrong is the askers' to know
            return [error] * len(questions)
