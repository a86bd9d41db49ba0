"""The reorder buffer: no gaps, in order, no duplicates, for any order of arrival."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from parley_client import Timeline
from parley_client.timeline import MAX_BUFFERED


def message(sequence: int) -> dict[str, Any]:
    return {"sequence": sequence}


def sequences(messages: list[dict[str, Any]]) -> list[int]:
    return [item["sequence"] for item in messages]


class TestTimeline:
    def test_the_next_is_returned_and_a_lower_one_is_a_duplicate(self) -> None:
        timeline = Timeline(last_seen=4)
        assert sequences(timeline.take([message(5), message(5), message(3)])) == [5]
        assert timeline.last_seen == 5

    def test_a_higher_one_is_buffered_until_the_gap_is_filled(self) -> None:
        timeline = Timeline()
        assert timeline.take([message(3)]) == []
        assert timeline.has_gap
        assert sequences(timeline.take([message(1), message(2)])) == [1, 2, 3]
        assert not timeline.has_gap

    def test_a_gap_does_not_buffer_without_bound(self) -> None:
        timeline = Timeline()
        timeline.take(message(number) for number in range(2, 5_000))
        assert len(timeline._buffer) == MAX_BUFFERED
        assert sequences(timeline.take([message(1)])) == list(range(1, MAX_BUFFERED + 2))

    @given(st.permutations(range(1, 12)), st.lists(st.integers(1, 11), max_size=20))
    def test_any_order_with_any_repeats_ends_without_gaps(self, order: list[int], repeats: list[int]) -> None:
        timeline = Timeline()
        taken = [found for number in [*repeats, *order] for found in sequences(timeline.take([message(number)]))]
        assert taken == list(range(1, 12))
