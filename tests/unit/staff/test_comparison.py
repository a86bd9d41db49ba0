"""DynamoDB against Kafka for one chat, without either."""

from collections.abc import Hashable, Mapping
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest

from foundation.kernel.clock import to_iso
from foundation.kernel.events import CHATS_CREATED, MEMBERSHIPS_CHANGED, MESSAGES_PERSISTED
from staff.findings import Finding
from staff.services.comparison import Entry, Window, compare_changes, compare_creation, compare_entries, late
from staff.services.event_index import UNNUMBERED, ChatEvents

NOW = datetime(2026, 1, 30, 12, tzinfo=UTC)
WINDOW = Window(NOW - timedelta(hours=1), NOW - timedelta(seconds=10))


def stored(*sequences: int, age: timedelta = timedelta(minutes=1)) -> dict[int, Entry]:
    return {sequence: Entry(f"msg_{sequence}", to_iso(NOW - age)) for sequence in sequences}


def logged(*sequences: int, again: tuple[int, ...] = ()) -> ChatEvents:
    events = ChatEvents()
    for sequence in sequences:
        events.add(sequence, f"msg_{sequence}", republished=False)
    for sequence in again:
        events.add(sequence, f"msg_{sequence}", republished=True)
    return events


def found(entries: dict[int, Entry], events: ChatEvents) -> list[tuple[str, int | None]]:
    return [(each.kind, each.sequence) for each in compare_entries("chat", entries, events, WINDOW)]


class TestCompare:
    def test_what_agrees_is_not_found(self) -> None:
        assert found(stored(1, 2, 3), logged(1, 2, 3)) == []

    def test_an_entry_without_an_event_is_missing(self) -> None:
        assert found(stored(1, 2, 3), logged(1, 3)) == [("missing", 2)]

    @pytest.mark.parametrize("age", [timedelta(seconds=9), timedelta(hours=2)])
    def test_outside_the_window_nothing_is_missing(self, age: timedelta) -> None:
        assert found(stored(1, age=age), logged()) == []

    def test_a_torn_entry_without_a_time_is_not_missing(self) -> None:
        assert found({1: Entry(None, None)}, logged()) == []

    def test_an_event_of_another_message_does_not_count(self) -> None:
        events = ChatEvents()
        events.add(1, "msg_other", republished=False)
        assert found(stored(1), events) == [("missing", 1), ("orphaned", 1)]

    def test_what_a_repair_published_is_not_missing_any_more(self) -> None:
        assert found(stored(1, 2, 3), logged(1, 3, again=(2,))) == []

    def test_a_finding_names_its_topic(self) -> None:
        assert [each.topic for each in compare_entries("chat", stored(1), logged(), WINDOW)] == [MESSAGES_PERSISTED]


class TestCompareChanges:
    ENTRIES: ClassVar = {
        1: Entry("msg_1", to_iso(NOW - timedelta(minutes=1))),
        2: Entry(
            "msg_2", to_iso(NOW - timedelta(minutes=1)), changes=(("bob", "role_changed"), ("ann", "role_changed"))
        ),
        3: Entry("msg_3", to_iso(NOW - timedelta(minutes=1)), changes=(("bob", "removed"),)),
    }

    def found(self, *places: tuple[int, Hashable], entries: Mapping[int, Entry] = ENTRIES) -> list[Finding]:
        events = ChatEvents()
        for sequence, subject in places:
            events.add(sequence, subject, republished=False)
        return list(compare_changes("chat", entries, events, WINDOW))

    def test_changes_that_are_told_in_any_order_are_not_found(self) -> None:
        assert self.found((3, "bob"), (2, "ann"), (2, "bob")) == []

    def test_a_change_without_an_event_is_missing_and_names_user_and_topic(self) -> None:
        found = [(each.kind, each.topic, each.sequence, each.user_id) for each in self.found((2, "bob"), (3, "bob"))]
        assert found == [("missing", MEMBERSHIPS_CHANGED, 2, "ann")]

    def test_an_event_without_a_sequence_tells_of_the_changes_of_its_user_and_kind(self) -> None:
        found = self.found((UNNUMBERED, ("bob", "role_changed")), (UNNUMBERED, ("ann", "role_changed")))
        assert [(each.sequence, each.user_id) for each in found] == [(3, "bob")]

    def test_an_event_of_a_user_whom_the_notice_does_not_name_is_an_orphan(self) -> None:
        found = self.found((2, "bob"), (2, "ann"), (3, "bob"), (3, "eve"))
        assert [(each.kind, each.topic, each.sequence) for each in found] == [("orphaned", MEMBERSHIPS_CHANGED, 3)]

    @pytest.mark.parametrize("age", [timedelta(seconds=9), timedelta(hours=2)])
    def test_outside_the_window_nothing_is_missing(self, age: timedelta) -> None:
        assert self.found(entries={1: Entry("msg_1", to_iso(NOW - age), changes=(("bob", "added"),))}) == []


class TestCompareCreation:
    CHAT: ClassVar = {"created_at": to_iso(NOW - timedelta(minutes=1))}

    def found(self, chat: Mapping[str, str] | None, *, is_told: bool) -> list[tuple[str, str | None]]:
        events = ChatEvents()
        if is_told:
            events.add(UNNUMBERED, None, republished=False)
        return [(each.kind, each.topic) for each in compare_creation("chat", chat, events, WINDOW)]

    def test_a_chat_without_an_event_is_missing(self) -> None:
        assert self.found(self.CHAT, is_told=False) == [("missing", CHATS_CREATED)]

    def test_an_event_without_a_chat_is_an_orphan(self) -> None:
        assert self.found(None, is_told=True) == [("orphaned", CHATS_CREATED)]

    def test_what_agrees_or_is_old_is_not_found(self) -> None:
        old = {"created_at": to_iso(NOW - timedelta(hours=2))}
        assert self.found(self.CHAT, is_told=True) == self.found(old, is_told=False) == []
        assert self.found(None, is_told=False) == self.found({}, is_told=False) == []


class TestLate:
    @pytest.mark.parametrize(
        ("sequences", "expected"),
        [([1, 2, 3], []), ([1, 3, 2], [2]), ([3, 1, 2], [1, 2]), ([1, 2, 1, 2], []), ([5, 6], [])],
    )
    def test_only_first_occurrences_count(self, sequences: list[int], expected: list[int]) -> None:
        assert late([(sequence, False) for sequence in sequences]) == expected

    def test_one_that_was_published_again_is_not_found(self) -> None:
        assert late([(1, False), (3, False), (2, False), (2, True)]) == []

    def test_a_late_event_behind_a_repair_is_found_again(self) -> None:
        assert late([(1, False), (4, False), (2, False), (2, True), (3, False)]) == [3]
