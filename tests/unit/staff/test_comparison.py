"""DynamoDB against Kafka for one chat, without either."""

from datetime import UTC, datetime, timedelta

import pytest

from foundation.kernel.clock import to_iso
from staff.services.comparison import Entry, Window, compare, late
from staff.services.event_index import ChatEvents

NOW = datetime(2026, 1, 30, 12, tzinfo=UTC)
WINDOW = Window(NOW - timedelta(hours=1), NOW - timedelta(seconds=10))


def stored(*sequences: int, age: timedelta = timedelta(minutes=1)) -> dict[int, Entry]:
    return {sequence: Entry(f"msg_{sequence}", to_iso(NOW - age)) for sequence in sequences}


def told(*sequences: int, again: tuple[int, ...] = ()) -> ChatEvents:
    events = ChatEvents()
    for sequence in sequences:
        events.add(sequence, f"msg_{sequence}", republished=False)
    for sequence in again:
        events.add(sequence, f"msg_{sequence}", republished=True)
    return events


def found(entries: dict[int, Entry], events: ChatEvents) -> list[tuple[str, int | None]]:
    return [(each.kind, each.sequence) for each in compare("chat", entries, events, WINDOW)]


class TestCompare:
    def test_what_agrees_is_not_found(self) -> None:
        assert found(stored(1, 2, 3), told(1, 2, 3)) == []

    def test_an_entry_without_an_event_is_missing(self) -> None:
        assert found(stored(1, 2, 3), told(1, 3)) == [("missing", 2)]

    @pytest.mark.parametrize("age", [timedelta(seconds=9), timedelta(hours=2)])
    def test_outside_the_window_nothing_is_missing(self, age: timedelta) -> None:
        assert found(stored(1, age=age), told()) == []

    def test_a_torn_entry_without_a_time_is_not_missing(self) -> None:
        assert found({1: Entry(None, None)}, told()) == []

    def test_an_event_of_another_message_does_not_count(self) -> None:
        events = ChatEvents()
        events.add(1, "msg_other", republished=False)
        assert found(stored(1), events) == [("missing", 1), ("orphaned", 1)]

    def test_a_published_repair_settles_what_was_missing(self) -> None:
        assert found(stored(1, 2, 3), told(1, 3, again=(2,))) == []


class TestLate:
    @pytest.mark.parametrize(
        ("sequences", "expected"),
        [([1, 2, 3], []), ([1, 3, 2], [2]), ([3, 1, 2], [1, 2]), ([1, 2, 1, 2], []), ([5, 6], [])],
    )
    def test_only_first_occurrences_count(self, sequences: list[int], expected: list[int]) -> None:
        assert late([(sequence, False) for sequence in sequences]) == expected

    def test_one_that_was_published_again_is_settled(self) -> None:
        assert late([(1, False), (3, False), (2, False), (2, True)]) == []

    def test_a_late_event_behind_a_repair_is_found_again(self) -> None:
        assert late([(1, False), (4, False), (2, False), (2, True), (3, False)]) == [3]
