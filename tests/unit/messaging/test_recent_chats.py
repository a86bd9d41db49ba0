"""Notes of the chats that are written: soon, seldom, and without delaying anybody."""

import asyncio
from collections.abc import Collection
from typing import cast

from foundation.kernel.ids import ChatId
from foundation.kernel.loops import ServiceLoop
from foundation.stores.errors import StoreUnavailable
from messaging.services.committer import Committer
from messaging.services.notices import CommandLog
from messaging.services.recent_chats import NOTE_EVERY, RecentChats
from tests.doubles import SettableClock, eventually

A, B, C = ChatId("chat_a"), ChatId("chat_b"), ChatId("chat_c")


class Store:
    def __init__(self) -> None:
        self.added: list[set[ChatId]] = []
        self.is_away = False

    async def add(self, chat_ids: Collection[ChatId], *, now: float) -> None:
        await asyncio.sleep(0)
        if self.is_away:
            raise StoreUnavailable("away")
        self.added.append(set(chat_ids))


class Notes:
    def __init__(self) -> None:
        self.store, self.seconds = Store(), 0.0
        self.recent = RecentChats(self.store, clock=SettableClock(), monotonic=lambda: self.seconds)

    async def note(self, *chat_ids: ChatId) -> None:
        """As the committer does."""
        good_until = self.recent.good_until
        self.recent.note([each for each in chat_ids if good_until.get(each, self.seconds) <= self.seconds])
        await self.let_tasks_run()

    async def let_tasks_run(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


async def test_a_chat_is_noted_once_in_half_a_minute() -> None:
    notes = Notes()
    await notes.note(A, B)
    await notes.note(A, C)
    notes.seconds = NOTE_EVERY
    await notes.note(A)
    assert notes.store.added == [{A, B}, {C}, {A}]


async def test_chats_that_come_while_a_command_is_under_way_share_the_next() -> None:
    notes = Notes()
    for chat_id in (A, B, C):
        notes.recent.note([chat_id])
        await asyncio.sleep(0)
    await notes.let_tasks_run()
    assert notes.store.added[0] == {A}
    assert set.union(*notes.store.added[1:]) == {B, C}


async def test_what_redis_did_not_take_is_noted_with_the_next_message() -> None:
    notes = Notes()
    notes.store.is_away = True
    await notes.note(A)
    notes.store.is_away = False
    await notes.note(A)
    assert notes.store.added == [{A}]


def test_a_thread_that_creates_a_chat_notes_it_on_the_loop() -> None:
    notes, loop = Notes(), ServiceLoop()
    CommandLog(cast("Committer", None), loop=loop, recent=notes.recent).note(A)
    eventually(lambda: notes.store.added == [{A}])
    loop.close()
