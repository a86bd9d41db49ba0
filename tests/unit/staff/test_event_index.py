"""What of the events of a topic is kept."""

from datetime import UTC, datetime
from typing import Any

import pytest

from foundation.kernel.events import CHATS_CREATED, MEMBERSHIPS_CHANGED, MESSAGES_PERSISTED, Event
from foundation.stores.kafka import Record
from staff.services.event_index import UNNUMBERED, EventIndex

NOW = datetime(2026, 1, 30, 12, tzinfo=UTC)
NOTICE = {"type": "member_added", "user_ids": ["bob"], "roles": ["member"]}


def record(event_type: str, payload: dict[str, Any]) -> Record:
    event = Event(event_type, "evt_1", NOW, "chat", payload)
    return Record(topic=event.topic, partition=0, offset=0, key="chat", value=event.encode(), headers={})


def index(topic: str, *records: Record) -> EventIndex:
    filled = EventIndex(topic)
    filled.add(records)
    return filled


def test_entries_are_known_by_sequence_and_message_id() -> None:
    payload = {"chat_id": "chat", "sequence": 3, "message_id": "msg_3"}
    filled = index(MESSAGES_PERSISTED, record("MessagePersisted", payload))
    assert filled.of("chat").places() == {(3, hash("msg_3"))}
    assert filled.changes_in("chat").places() == set()


def test_a_notice_names_the_changes_that_must_have_events() -> None:
    payload = {"chat_id": "chat", "sequence": 3, "message_id": "msg_3", "notice": NOTICE}
    filled = index(MESSAGES_PERSISTED, record("EntryPersisted", payload))
    assert filled.changes_in("chat").places() == {(3, hash("bob"))}


@pytest.mark.parametrize(
    "notice",
    [{"type": "chat_renamed", "name": "bob"}, {**NOTICE, "roles": []}, {**NOTICE, "roles": ["king"]}, "member_added"],
)
def test_other_notices_and_unreadable_ones_name_none(notice: object) -> None:
    payload = {"chat_id": "chat", "sequence": 3, "message_id": "msg_3", "notice": notice}
    assert len(index(MESSAGES_PERSISTED, record("EntryPersisted", payload)).changes_in("chat")) == 0


def test_changes_are_known_by_their_notice_or_in_earlier_releases_by_user_and_change() -> None:
    change = {"chat_id": "chat", "user_id": "bob", "change_type": "added"}
    filled = index(
        MEMBERSHIPS_CHANGED,
        record("MembershipChanged", {**change, "sequence": 3}),
        record("MembershipChanged", change),
    )
    assert filled.of("chat").places() == {(3, hash("bob")), (UNNUMBERED, hash(("bob", "added")))}


@pytest.mark.parametrize(
    ("topic", "event_type", "payload"),
    [
        (MESSAGES_PERSISTED, "MessagePersisted", {"chat_id": "chat", "sequence": 0, "message_id": "msg_3"}),
        (MEMBERSHIPS_CHANGED, "MembershipChanged", {"chat_id": "chat", "user_id": "bob", "sequence": 3}),
        (MEMBERSHIPS_CHANGED, "ChatCreated", {"chat_id": "chat"}),
        (CHATS_CREATED, "ChatCreated", {"chat_id": 5}),
    ],
)
def test_what_cannot_be_read_is_counted(topic: str, event_type: str, payload: dict[str, Any]) -> None:
    filled = index(topic, record(event_type, payload))
    assert (filled.malformed, filled.chat_ids) == (1, [])
