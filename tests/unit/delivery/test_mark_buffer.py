"""Marks are written concurrently, and coalesced while they wait."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast
from unittest.mock import Mock

import pytest

from delivery.domain import Mark, Marks, Pair
from delivery.services import mark_buffer
from delivery.services.mark_buffer import (
    BACKLOG_PER_WRITE,
    CONCURRENT_WRITES,
    MAX_CLAIMS,
    MAX_WAITING_PER_USER,
    PAIRS_PER_WRITE,
    MarkBuffer,
)
from delivery.services.watermarks import Claim, Outcome, Watermarks
from foundation.kernel.clock import SystemClock
from foundation.kernel.errors import ParleyError, Unavailable
from foundation.kernel.ids import ChatId, IdFactory, UserId

USER = UserId("user_1")


class SlowWatermarks:
    """Holds every write until it is released. `reached` is set when `expected` writes are in flight."""

    def __init__(self, expected: int = 1) -> None:
        self.released = asyncio.Event()
        self.reached = asyncio.Event()
        self._expected = expected
        self.in_flight = 0
        self.most_in_flight = 0
        self.writes: list[Pair] = []
        self.written: dict[Pair, Marks] = {}
        self.fails = 0
        """How many writes fail, of the store or of the acknowledgements alone."""
        self.asked: list[Collection[Claim]] = []
        self.has_only_acks_failing = False

    async def move_many(self, claims: Mapping[Pair, Collection[Claim]]) -> Outcome:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        if self.in_flight == self._expected:
            self.reached.set()
        await self.released.wait()
        self.in_flight -= 1
        assert len(claims) <= PAIRS_PER_WRITE
        self.writes += claims
        self.asked += claims.values()
        if self.fails:
            self.fails -= 1
            if self.has_only_acks_failing:
                refused = [(pair, each) for pair, asked in claims.items() for each in asked if each[0] is Mark.ACKED]
                return Outcome(dict.fromkeys(refused, Unavailable("the store is away")), {})
            raise Unavailable("the store is away")
        for pair, asked in claims.items():
            moved = [Marks(**{"acked" if mark is Mark.ACKED else "read": sequence}) for mark, sequence in asked]
            for marks in moved:
                self.written[pair] = marks.merged(self.written.get(pair, Marks()))
        return Outcome({}, {pair: self.written[pair] for pair in claims})


def chats(count: int) -> list[ChatId]:
    ids = IdFactory(SystemClock())
    return [ids.chat() for _ in range(count)]


def refuse(error: ParleyError) -> None:
    raise AssertionError(error)


def put(buffer: MarkBuffer, chat_id: ChatId, sequence: int, mark: Mark = Mark.ACKED) -> None:
    buffer.put(USER, chat_id, mark, sequence, on_refused=refuse)


async def test_several_batches_are_in_flight_while_the_store_is_slow() -> None:
    store = SlowWatermarks(expected=CONCURRENT_WRITES)
    buffer = MarkBuffer(cast(Watermarks, store))
    known = chats(BACKLOG_PER_WRITE * CONCURRENT_WRITES)
    for chat_id in known:
        put(buffer, chat_id, 1)
    await store.reached.wait()
    store.released.set()
    await buffer.close()
    assert store.most_in_flight == CONCURRENT_WRITES
    assert store.written == {(USER, chat_id): Marks(acked=1) for chat_id in known}


async def test_batches_go_one_by_one_while_few_wait() -> None:
    store = SlowWatermarks()
    buffer = MarkBuffer(cast(Watermarks, store))
    for chat_id in chats(BACKLOG_PER_WRITE - PAIRS_PER_WRITE - 1):
        put(buffer, chat_id, 1)
    await store.reached.wait()
    store.released.set()
    await buffer.close()
    assert store.most_in_flight == 1


async def test_what_arrives_during_a_write_is_coalesced_and_written_after_it() -> None:
    store = SlowWatermarks()
    buffer = MarkBuffer(cast(Watermarks, store))
    (chat_id,) = chats(1)
    put(buffer, chat_id, 1)
    await store.reached.wait()
    for sequence in (2, 5, 3):
        put(buffer, chat_id, sequence)
    put(buffer, chat_id, 4, Mark.READ)
    store.released.set()
    await buffer.close()
    assert store.written == {(USER, chat_id): Marks(acked=5, read=4)}
    assert store.writes == [(USER, chat_id)] * 2


async def test_one_user_has_a_share_of_what_waits_and_others_go_on() -> None:
    store = SlowWatermarks()
    buffer = MarkBuffer(cast(Watermarks, store))
    *known, one_more = chats(MAX_WAITING_PER_USER + 1)
    for chat_id in known:
        put(buffer, chat_id, 1)
    with pytest.raises(Unavailable):
        put(buffer, one_more, 1)
    buffer.put(UserId("user_2"), one_more, Mark.ACKED, 1, on_refused=refuse)
    store.released.set()
    await buffer.close()
    assert len(store.written) == MAX_WAITING_PER_USER + 1
    put(buffer, one_more, 2)


async def test_marks_of_one_moment_share_a_batch() -> None:
    store = SlowWatermarks()
    store.released.set()
    buffer = MarkBuffer(cast(Watermarks, store))
    for chat_id in chats(PAIRS_PER_WRITE):
        put(buffer, chat_id, 1)
    await buffer.close()
    assert store.most_in_flight == 1


async def test_a_pair_is_written_at_most_once_a_second() -> None:
    now = 100.0
    store = SlowWatermarks()
    store.released.set()
    buffer = MarkBuffer(cast(Watermarks, store), monotonic=lambda: now)
    first, second = chats(2)
    put(buffer, first, 1)
    await store.reached.wait()
    put(buffer, first, 2)
    store.reached.clear()
    put(buffer, second, 1)
    await store.reached.wait()
    assert store.writes == [(USER, first), (USER, second)]
    now += 1.0
    put(buffer, second, 2)
    await buffer.close()
    assert store.written == {(USER, first): Marks(acked=2), (USER, second): Marks(acked=2)}


async def test_what_is_known_to_be_stored_is_not_written_again() -> None:
    store = SlowWatermarks()
    store.released.set()
    buffer = MarkBuffer(cast(Watermarks, store))
    (chat_id,) = chats(1)
    put(buffer, chat_id, 7, Mark.READ)
    await store.reached.wait()
    await asyncio.sleep(0)
    for mark in Mark:
        put(buffer, chat_id, 7, mark)
        put(buffer, chat_id, 3, mark)
    await buffer.close()
    assert store.writes == [(USER, chat_id)]


async def test_a_read_mark_is_written_however_many_acknowledgements_wait() -> None:
    store = SlowWatermarks()
    buffer = MarkBuffer(cast(Watermarks, store))
    (chat_id,) = chats(1)
    put(buffer, chat_id, 5, Mark.READ)
    await store.reached.wait()
    for sequence in range(10, 10 + 2 * MAX_CLAIMS):
        put(buffer, chat_id, sequence)
    put(buffer, chat_id, 9, Mark.READ)
    store.released.set()
    await buffer.close()
    assert store.written == {(USER, chat_id): Marks(acked=9 + 2 * MAX_CLAIMS, read=9)}


async def test_an_acknowledgement_that_begins_the_read_mark_waits_beside_many_read_marks() -> None:
    store = SlowWatermarks()
    buffer = MarkBuffer(cast(Watermarks, store))
    (chat_id,) = chats(1)
    for sequence in range(1, 1 + 2 * MAX_CLAIMS):
        put(buffer, chat_id, sequence, Mark.READ)
    buffer.put(USER, chat_id, Mark.ACKED, 20, on_refused=refuse, is_unread=True)
    store.released.set()
    await buffer.close()
    assert store.written == {(USER, chat_id): Marks(acked=20, read=2 * MAX_CLAIMS)}


async def test_marks_that_the_store_does_not_take_are_written_again(monkeypatch: Any) -> None:
    monkeypatch.setattr(mark_buffer, "RETRY_AFTER", (0.0,) * 3)
    store = SlowWatermarks()
    store.released.set()
    store.fails = 3
    buffer = MarkBuffer(cast(Watermarks, store))
    (chat_id,) = chats(1)
    put(buffer, chat_id, 4)
    put(buffer, chat_id, 3, Mark.READ)
    await until(lambda: bool(store.written))
    await buffer.close()
    assert store.written == {(USER, chat_id): Marks(acked=4, read=3)}
    assert buffer._failures == {}


async def test_marks_that_cannot_be_written_are_refused_in_the_end(monkeypatch: Any) -> None:
    monkeypatch.setattr(mark_buffer, "RETRY_AFTER", (0.0,) * 3)
    store, refusals = SlowWatermarks(), list[ParleyError]()
    store.released.set()
    store.fails = 4
    buffer = MarkBuffer(cast(Watermarks, store))
    (chat_id,) = chats(1)
    buffer.put(USER, chat_id, Mark.ACKED, 1, on_refused=refusals.append)
    await until(lambda: bool(refusals))
    assert (len(store.writes), buffer._failures, buffer._waiting) == (4, {}, {})
    put(buffer, chat_id, 2)
    await buffer.close()
    assert store.written == {(USER, chat_id): Marks(acked=2)}


async def test_a_client_that_cannot_be_told_of_a_refusal_costs_no_other_its_mark(monkeypatch: Any) -> None:
    monkeypatch.setattr(mark_buffer, "RETRY_AFTER", (0.0,))
    store = SlowWatermarks()
    store.released.set()
    buffer = MarkBuffer(cast(Watermarks, store))
    broken, other = chats(2)
    buffer._failures[USER, broken] = len(mark_buffer.RETRY_AFTER)
    store.fails = 1
    buffer.put(USER, broken, Mark.ACKED, 1, on_refused=Mock(side_effect=ConnectionResetError))
    put(buffer, other, 1)
    await until(lambda: bool(store.written))
    await buffer.close()
    assert store.written == {(USER, other): Marks(acked=1)}


async def test_writing_goes_on_after_an_unexpected_failure(monkeypatch: Any) -> None:
    monkeypatch.setattr(mark_buffer, "PAUSE_AFTER_FAILURE", 0.0)
    store = SlowWatermarks()
    store.released.set()
    buffer = MarkBuffer(cast(Watermarks, store))
    collect, failures = buffer._collect_due, [ZeroDivisionError(), ZeroDivisionError()]

    def fail_at_first() -> None:
        if failures:
            raise failures.pop()
        collect()

    monkeypatch.setattr(buffer, "_collect_due", fail_at_first)
    (chat_id,) = chats(1)
    put(buffer, chat_id, 1)
    await until(lambda: bool(store.written))
    await buffer.close()
    assert store.written == {(USER, chat_id): Marks(acked=1)}


async def test_an_acknowledgement_that_is_written_again_still_begins_the_read_mark(monkeypatch: Any) -> None:
    monkeypatch.setattr(mark_buffer, "RETRY_AFTER", (0.0,) * 3)
    store = SlowWatermarks()
    store.released.set()
    store.fails, store.has_only_acks_failing = 1, True
    buffer = MarkBuffer(cast(Watermarks, store))
    (chat_id,) = chats(1)
    buffer.put(USER, chat_id, Mark.ACKED, 4, on_refused=refuse, is_unread=True)
    await until(lambda: len(store.asked) == 2)
    await buffer.close()
    assert [set(asked) for asked in store.asked] == [{(Mark.ACKED, 4), (Mark.READ, 0)}] * 2


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - not an event
            await asyncio.sleep(0.001)
