"""Watermarks go up, never down."""

import random
import threading

import pytest

from delivery.stores.watermarks import WatermarkStore
from foundation.kernel.clock import SystemClock
from foundation.kernel.ids import IdFactory
from foundation.stores.dynamodb import Database

NOW = SystemClock().now()
ids = IdFactory(SystemClock())


@pytest.fixture
def watermarks(database: Database) -> WatermarkStore:
    return WatermarkStore(database)


class TestWatermarks:
    def test_a_chat_without_acknowledgements_has_none(self, watermarks: WatermarkStore) -> None:
        assert watermarks.last_acked(ids.user(), [ids.chat()]) == {}

    def test_each_user_and_chat_has_its_own(self, watermarks: WatermarkStore) -> None:
        ada, bob, one, two = ids.user(), ids.user(), ids.chat(), ids.chat()
        for user_id, chat_id, sequence in ((ada, one, 3), (ada, two, 5), (bob, one, 7)):
            assert watermarks.advance(user_id, chat_id, sequence, now=NOW)
        assert watermarks.last_acked(ada, [one, two]) == {one: 3, two: 5}
        assert watermarks.last_acked(bob, [one, two]) == {one: 7}

    def test_an_older_or_equal_acknowledgement_moves_nothing(self, watermarks: WatermarkStore) -> None:
        ada, chat_id = ids.user(), ids.chat()
        assert [watermarks.advance(ada, chat_id, sequence, now=NOW) for sequence in (5, 5, 4, 6)] == [
            True,
            False,
            False,
            True,
        ]
        assert watermarks.last_acked(ada, [chat_id]) == {chat_id: 6}

    def test_the_highest_of_many_simultaneous_ones_remains(self, watermarks: WatermarkStore) -> None:
        ada, chat_id = ids.user(), ids.chat()
        sequences = list(range(1, 41))
        random.Random(4).shuffle(sequences)
        threads = [
            threading.Thread(target=watermarks.advance, args=(ada, chat_id, n), kwargs={"now": NOW}) for n in sequences
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert watermarks.last_acked(ada, [chat_id]) == {chat_id: 40}
