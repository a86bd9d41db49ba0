"""The lists of watched users that one connection sends: one at a time, within a budget, the newest of each chat."""

import asyncio
from collections.abc import Collection
from typing import Any

import pytest

from chats.errors import ChatNotFound
from delivery.gateway import watch_queue
from delivery.gateway.presence import MAX_WATCHED
from delivery.gateway.watch_queue import BUDGET, MAX_WAITING, WatchBudgets, WatchQueue
from foundation.kernel.errors import Invalid, ParleyError, Unavailable
from foundation.kernel.ids import ChatId, ConnectionId, UserId
from foundation.stores.redis.limits import Limit


def users(count: int) -> list[UserId]:
    return [UserId(f"user_{number}") for number in range(count)]


def chats(count: int) -> list[ChatId]:
    return [ChatId(f"chat_{number}") for number in range(count)]


class Watching:
    """A queue, and what it has served. Each is served only while `released` is set."""

    def __init__(self, budgets: WatchBudgets | None = None, *, connection: str = "phone") -> None:
        self.served: list[tuple[ChatId, int]] = []
        self.errors: list[tuple[ParleyError, ChatId]] = []
        self.released = asyncio.Event()
        self.released.set()
        self.started = asyncio.Event()
        self.at_once = self.most_at_once = 0
        self.refusal: Exception | None = None
        charge = (budgets or WatchBudgets()).of(ConnectionId(connection), UserId("ada"))
        self.queue = WatchQueue(self.watch, charge=charge, on_error=lambda *refused: self.errors.append(refused))

    async def watch(self, chat_id: ChatId, user_ids: Collection[UserId]) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.started.set()
        await self.released.wait()
        self.at_once -= 1
        self.served.append((chat_id, len(user_ids)))
        if self.refusal is not None:
            raise self.refusal

    async def until_idle(self) -> None:
        async with asyncio.timeout(20):
            while self.queue._task is not None:  # noqa: ASYNC110 - the end of a task, which has no event
                await asyncio.sleep(0.001)


async def test_one_is_served_at_a_time_and_of_those_of_a_chat_that_wait_the_newest() -> None:
    watching = Watching()
    watching.released.clear()
    first, second = chats(2)
    watching.queue.put(first, users(1))
    await asyncio.wait_for(watching.started.wait(), 20)
    for count in (2, 3, 4):
        watching.queue.put(first, users(count))
        watching.queue.put(second, users(count))
    watching.released.set()
    await watching.until_idle()
    assert watching.served == [(first, 1), (first, 4), (second, 4)]
    assert watching.most_at_once == 1


async def test_what_a_client_watches_when_it_connects_is_within_the_budget(monkeypatch: Any) -> None:
    monkeypatch.setattr(watch_queue, "BUDGET", Limit("watched", rate=1e-9, burst=BUDGET.burst))
    watching = Watching()
    for chat_id in chats(30):
        watching.queue.put(chat_id, users(1))
    watching.queue.put(ChatId("group"), users(100))
    await watching.until_idle()
    assert len(watching.served) == 31


async def test_what_is_beyond_the_budget_waits_and_is_served_later(monkeypatch: Any) -> None:
    monkeypatch.setattr(watch_queue, "BUDGET", Limit("watched", rate=1000.0, burst=10))
    watching = Watching()
    for chat_id in chats(5):
        watching.queue.put(chat_id, users(10))
    await asyncio.sleep(0)
    assert len(watching.served) == 1
    await watching.until_idle()
    assert watching.served == [(chat_id, 10) for chat_id in chats(5)]


async def test_the_connections_of_a_user_share_a_budget(monkeypatch: Any) -> None:
    monkeypatch.setattr(watch_queue, "USER_BUDGET", Limit("watched-by-user", rate=1e-9, burst=2 * BUDGET.burst))
    budgets = WatchBudgets()
    watching = [Watching(budgets, connection=str(number)) for number in range(10)]
    for each in watching:
        each.queue.put(ChatId("group"), users(MAX_WATCHED))
    for _ in range(20):
        await asyncio.sleep(0)
    assert sum(len(each.served) for each in watching) == 2 * BUDGET.burst // MAX_WATCHED
    for each in watching:
        each.queue.close()


async def test_the_end_of_a_watch_costs_nothing(monkeypatch: Any) -> None:
    monkeypatch.setattr(watch_queue, "BUDGET", Limit("watched", rate=1e-9, burst=1))
    watching = Watching()
    for chat_id in chats(20):
        watching.queue.put(chat_id, [])
    await watching.until_idle()
    assert len(watching.served) == 20


async def test_what_waits_is_bounded_and_ends_with_the_connection() -> None:
    watching = Watching()
    watching.released.clear()
    for chat_id in chats(MAX_WAITING):
        watching.queue.put(chat_id, users(1))
    with pytest.raises(Unavailable):
        watching.queue.put(ChatId("another"), users(1))
    with pytest.raises(Invalid):
        watching.queue.put(chats(1)[0], users(MAX_WATCHED + 1))
    watching.queue.close()
    watching.released.set()
    await watching.until_idle()
    assert watching.served == []


@pytest.mark.parametrize("refusal", [ChatNotFound(), RuntimeError()])
async def test_a_list_that_fails_is_told_and_the_next_is_served(refusal: Exception) -> None:
    watching = Watching()
    watching.refusal = refusal
    for chat_id in chats(2):
        watching.queue.put(chat_id, users(1))
    await watching.until_idle()
    assert [chat_id for _, chat_id in watching.errors] == chats(2)
    assert len(watching.served) == 2
