"""Marks go up, never down, and one does not move the other."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from delivery.domain import Mark, Marks
from delivery.stores.watermarks import WatermarkStore
from foundation.kernel.clock import SystemClock
from foundation.kernel.ids import ChatId, IdFactory, UserId
from foundation.stores.dynamodb import AsyncDatabase, Database, DynamoDBOptions

NOW = SystemClock().now()
ids = IdFactory(SystemClock())


@pytest.fixture
async def on_loop(database: Database, dynamodb_options: DynamoDBOptions) -> AsyncIterator[AsyncDatabase]:
    on_loop = AsyncDatabase(dynamodb_options)
    yield on_loop
    await on_loop.wire.close()


class Watermarks(WatermarkStore):
    def __init__(self, database: AsyncDatabase) -> None:
        super().__init__(database)
        self._on_loop = database

    async def of(self, user_id: UserId, *chat_ids: ChatId) -> dict[ChatId, Marks]:
        found = self.found_in(await self._on_loop.batch_get(self.lookup((user_id, chat_id) for chat_id in chat_ids)))
        return {chat_id: marks for (_, chat_id), marks in found.items()}


@pytest.fixture
def watermarks(on_loop: AsyncDatabase) -> Watermarks:
    return Watermarks(on_loop)


class TestMarks:
    async def test_a_chat_without_marks_has_none(self, watermarks: Watermarks) -> None:
        assert await watermarks.of(ids.user(), ids.chat()) == {}

    @pytest.mark.parametrize("mark", Mark)
    async def test_each_user_and_chat_has_its_own(self, watermarks: Watermarks, mark: Mark) -> None:
        ada, bob, one, two = ids.user(), ids.user(), ids.chat(), ids.chat()
        for user_id, chat_id, sequence in ((ada, one, 3), (ada, two, 5), (bob, one, 7)):
            assert await watermarks.advance((user_id, chat_id), mark, sequence, now=NOW)
        assert {chat: marks.delivered for chat, marks in (await watermarks.of(ada, one, two)).items()} == {
            one: 3,
            two: 5,
        }
        assert {chat: marks.delivered for chat, marks in (await watermarks.of(bob, one, two)).items()} == {one: 7}

    @pytest.mark.parametrize("mark", Mark)
    async def test_an_older_or_equal_one_moves_nothing_and_tells_what_is_stored(
        self, watermarks: Watermarks, mark: Mark
    ) -> None:
        pair = ids.user(), ids.chat()
        stored = [await watermarks.advance(pair, mark, sequence, now=NOW) for sequence in (5, 5, 4, 6)]
        assert [marks.of(mark) for marks in stored] == [5, 5, 5, 6]
        assert (await watermarks.get(*pair)).delivered == 6

    async def test_each_moves_alone_and_the_write_tells_both(self, watermarks: Watermarks) -> None:
        pair = ids.user(), ids.chat()
        assert await watermarks.advance(pair, Mark.READ, 4, now=NOW) == Marks(acked=0, read=4)
        assert await watermarks.advance(pair, Mark.ACKED, 3, now=NOW) == Marks(acked=3, read=4)
        assert await watermarks.advance(pair, Mark.ACKED, 9, now=NOW) == Marks(acked=9, read=4)
        assert await watermarks.advance(pair, Mark.READ, 2, now=NOW) == Marks(acked=9, read=4)
        assert await watermarks.get(*pair) == Marks(acked=9, read=4)

    async def test_the_highest_of_many_simultaneous_ones_of_both_kinds_remain(self, watermarks: Watermarks) -> None:
        pair = ids.user(), ids.chat()
        claims = [(mark, sequence + (mark is Mark.READ)) for mark in Mark for sequence in range(1, 41)]
        random.Random(4).shuffle(claims)
        await asyncio.gather(*(watermarks.advance(pair, mark, sequence, now=NOW) for mark, sequence in claims))
        assert await watermarks.get(*pair) == Marks(acked=40, read=41)
