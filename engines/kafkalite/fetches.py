"""Consumers that wait for news: a fetch is answered when there is any, or when its patience ends."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engines.kafkalite.errors import Code, Refusal
from engines.kafkalite.log import Partition

LONGEST_WAIT = 30.0
REST = 0.001
"""Seconds from a fetch to the first news for it: a busy consumer comes again at once, and more goes in one answer."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a fetch asks of one partition, which is None where there is no such."""

    topic: str
    number: int
    partition: Partition | None
    offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Found:
    wanted: Wanted
    code: Code
    data: bytes


class Fetches:
    """Those that have found nothing yet. On one event loop."""

    def __init__(self, *, rest: float = REST) -> None:
        self._rest = rest
        self._waiting: defaultdict[Partition, set[_Fetch]] = defaultdict(set)

    def begin(
        self,
        wanted: Sequence[Wanted],
        *,
        patience: float,
        min_bytes: int,
        max_bytes: int,
        answer: Callable[[list[Found]], None],
    ) -> None:
        """Have `answer` called: now, if enough is there or something is wrong; otherwise later."""
        found = look(wanted, max_bytes)
        if patience <= 0 or _is_enough(found, min_bytes):
            answer(found)
            return
        loop = asyncio.get_running_loop()
        fetch = _Fetch(wanted, min_bytes, max_bytes, answer, rested_at=loop.time() + self._rest)
        for one in wanted:
            if one.partition is not None:
                self._waiting[one.partition].add(fetch)
        fetch.alarm = loop.call_later(min(patience, LONGEST_WAIT), self._give_up, fetch)

    def tell(self, partition: Partition) -> None:
        """There is something new in it."""
        loop = asyncio.get_running_loop()
        for fetch in self._waiting[partition]:
            if not fetch.is_told:
                fetch.is_told = True
                loop.call_later(max(0.0, fetch.rested_at - loop.time()), self._look_again, fetch)

    def _look_again(self, fetch: "_Fetch") -> None:
        fetch.is_told = False
        if fetch.alarm is not None and _is_enough(found := look(fetch.wanted, fetch.max_bytes), fetch.min_bytes):
            fetch.alarm.cancel()
            self._end(fetch, found)

    def _give_up(self, fetch: "_Fetch") -> None:
        self._end(fetch, look(fetch.wanted, fetch.max_bytes))

    def _end(self, fetch: "_Fetch", found: list[Found]) -> None:
        fetch.alarm = None
        for one in fetch.wanted:
            if one.partition is not None:
                self._waiting[one.partition].discard(fetch)
        fetch.answer(found)


@dataclass(slots=True, eq=False)
class _Fetch:
    wanted: Sequence[Wanted]
    min_bytes: int
    max_bytes: int
    answer: Callable[[list[Found]], None]
    rested_at: float
    alarm: asyncio.TimerHandle | None = None
    is_told: bool = False


def look(wanted: Sequence[Wanted], max_bytes: int) -> list[Found]:
    """What is there now: no more than `max_bytes`, but for the first batch, which is always given whole."""
    found, size = [], 0
    for one in wanted:
        code, data = Code.NONE, b""
        if one.partition is None:
            code = Code.UNKNOWN_TOPIC_OR_PARTITION
        else:
            try:
                data = one.partition.read(one.offset, min(one.max_bytes, max_bytes - size), at_least_one=size == 0)
            except Refusal as refusal:
                code = refusal.code
        size += len(data)
        found.append(Found(one, code, data))
    return found


def _is_enough(found: Sequence[Found], min_bytes: int) -> bool:
    return any(one.code for one in found) or sum(len(one.data) for one in found) >= max(min_bytes, 1)
