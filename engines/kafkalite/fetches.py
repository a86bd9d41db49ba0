"""Fetches: each is answered once it has enough records, or when its maximum wait is over."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engines.kafkalite.errors import ErrorCode, KafkaError
from engines.kafkalite.log import Partition

MAX_WAIT_SECONDS = 30.0
LINGER_SECONDS = 0.001
"""A waiting fetch is answered this long after its arrival at the earliest, so that more records share a response."""


@dataclass(frozen=True, slots=True)
class PartitionFetch:
    """What a fetch requests of one partition, which is None if it does not exist."""

    topic: str
    number: int
    partition: Partition | None
    offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchResult:
    request: PartitionFetch
    code: ErrorCode
    data: bytes


class Fetches:
    """The fetches that wait for records. On one event loop."""

    def __init__(self, *, linger: float = LINGER_SECONDS) -> None:
        self._linger = linger
        self._waiting: defaultdict[Partition, set[_WaitingFetch]] = defaultdict(set)

    def start(
        self,
        requests: Sequence[PartitionFetch],
        *,
        max_wait: float,
        min_bytes: int,
        max_bytes: int,
        respond: Callable[[list[FetchResult]], None],
    ) -> None:
        """Call `respond` now if there are enough records or there is an error, otherwise later."""
        results = read_all(requests, max_bytes)
        if max_wait <= 0 or _is_complete(results, min_bytes):
            respond(results)
            return
        loop = asyncio.get_running_loop()
        fetch = _WaitingFetch(requests, min_bytes, max_bytes, respond, not_before=loop.time() + self._linger)
        for request in requests:
            if request.partition is not None:
                self._waiting[request.partition].add(fetch)
        fetch.timeout = loop.call_later(min(max_wait, MAX_WAIT_SECONDS), self._expire, fetch)

    def notify(self, partition: Partition) -> None:
        """Schedule another read for the fetches that wait for this partition, which has new records."""
        loop = asyncio.get_running_loop()
        for fetch in self._waiting[partition]:
            if not fetch.is_scheduled:
                fetch.is_scheduled = True
                loop.call_later(max(0.0, fetch.not_before - loop.time()), self._retry, fetch)

    def _retry(self, fetch: "_WaitingFetch") -> None:
        fetch.is_scheduled = False
        if fetch.timeout is None:
            return
        results = read_all(fetch.requests, fetch.max_bytes)
        if _is_complete(results, fetch.min_bytes):
            fetch.timeout.cancel()
            self._complete(fetch, results)

    def _expire(self, fetch: "_WaitingFetch") -> None:
        self._complete(fetch, read_all(fetch.requests, fetch.max_bytes))

    def _complete(self, fetch: "_WaitingFetch", results: list[FetchResult]) -> None:
        fetch.timeout = None
        for request in fetch.requests:
            if request.partition is not None:
                self._waiting[request.partition].discard(fetch)
        fetch.respond(results)


@dataclass(slots=True, eq=False)
class _WaitingFetch:
    """`timeout` is None once the fetch has been answered."""

    requests: Sequence[PartitionFetch]
    min_bytes: int
    max_bytes: int
    respond: Callable[[list[FetchResult]], None]
    not_before: float
    timeout: asyncio.TimerHandle | None = None
    is_scheduled: bool = False


def read_all(requests: Sequence[PartitionFetch], max_bytes: int) -> list[FetchResult]:
    """Read at most `max_bytes` in total. The first batch is returned whole even if it is larger."""
    results, size = [], 0
    for request in requests:
        code, data = ErrorCode.NONE, b""
        if request.partition is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            limit = min(request.max_bytes, max_bytes - size)
            try:
                data = request.partition.read(request.offset, limit, at_least_one=size == 0)
            except KafkaError as error:
                code = error.code
        size += len(data)
        results.append(FetchResult(request, code, data))
    return results


def _is_complete(results: Sequence[FetchResult], min_bytes: int) -> bool:
    return any(result.code for result in results) or sum(len(result.data) for result in results) >= max(min_bytes, 1)
