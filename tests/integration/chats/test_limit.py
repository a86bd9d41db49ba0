"""A group stays within its member limit, also under concurrent joins (ADR-012)."""

from collections.abc import Iterator
from functools import partial

import pytest
from django.test import override_settings

from chats.domain import Membership, Role
from chats.errors import GroupFull
from chats.services.leaving import Leaving
from foundation.kernel.clock import SystemClock
from foundation.kernel.ids import ChatId
from foundation.stores.dynamodb import Database
from foundation.stores.errors import TransactionConflict
from tests.integration.chats.stage import RecordingAnnouncer, Stage, all_at_once, captured, just_before

LIMIT = 12


@pytest.fixture
def stage(database: Database, announcer: RecordingAnnouncer) -> Iterator[Stage]:
    """Groups of twelve, so that the limit is near."""
    stage = Stage(database, announcer, SystemClock(), member_limit=LIMIT)
    with override_settings(ROOT_URLCONF=stage.urlconf()):
        yield stage
    stage.history.close()


def test_the_last_place_is_given_and_no_other(stage: Stage) -> None:
    owner = stage.user()
    chat_id = owner.create_group(*(stage.user() for _ in range(LIMIT - 2))).body["chat_id"]
    assert owner.add(chat_id, stage.user()).status == 200
    answer = owner.add(chat_id, stage.user())
    assert (answer.status, answer.code) == (409, "group_full")
    assert stage.memberships.count(ChatId(chat_id)) == LIMIT


def test_a_member_of_a_full_group_is_already_a_member(stage: Stage) -> None:
    owner, others = stage.user(), [stage.user() for _ in range(LIMIT - 1)]
    chat_id = owner.create_group(*others).body["chat_id"]
    assert owner.add(chat_id, others[0]).code == "already_a_member"


def test_a_place_that_is_left_can_be_taken(stage: Stage) -> None:
    owner, others = stage.user(), [stage.user() for _ in range(LIMIT - 1)]
    chat_id = owner.create_group(*others).body["chat_id"]
    others[0].remove(chat_id, others[0])
    assert owner.add(chat_id, stage.user()).status == 200


def test_a_join_over_the_limit_is_undone(stage: Stage, database: Database, announcer: RecordingAnnouncer) -> None:
    owner, first, second = stage.user(), stage.user(), stage.user()
    chat_id = ChatId(owner.create_group(*(stage.user() for _ in range(LIMIT - 2))).body["chat_id"])
    announcer.events.clear()
    with (
        just_before(database, "PutItem", lambda: owner.add(chat_id, first)),
        pytest.raises(GroupFull),
    ):
        stage.members.add(chat_id, owner.user_id, second.user_id, Role.MEMBER)
    assert stage.memberships.count(chat_id) == LIMIT
    assert (stage.role_of(chat_id, first), stage.role_of(chat_id, second)) == ("member", None)
    assert [event.payload["user_id"] for event in announcer.events] == [first.user_id]


def test_a_join_that_cannot_be_undone_stands_and_is_published(
    stage: Stage, database: Database, announcer: RecordingAnnouncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages kept the counter busy: one member too many is better than a member without an event."""

    def held_up(_leaving: Leaving, _seen: Membership) -> None:
        raise TransactionConflict("busy")

    owner, first, second = stage.user(), stage.user(), stage.user()
    chat_id = ChatId(owner.create_group(*(stage.user() for _ in range(LIMIT - 2))).body["chat_id"])
    announcer.events.clear()
    monkeypatch.setattr(Leaving, "leave", held_up)
    with just_before(database, "PutItem", lambda: owner.add(chat_id, first)):
        stage.members.add(chat_id, owner.user_id, second.user_id, Role.MEMBER)
    assert stage.memberships.count(chat_id) == LIMIT + 1
    assert [event.payload["user_id"] for event in announcer.events] == [first.user_id, second.user_id]


def test_many_joins_at_once_never_leave_more_than_the_limit(stage: Stage, announcer: RecordingAnnouncer) -> None:
    owner = stage.user()
    chat_id = ChatId(owner.create_group(*(stage.user() for _ in range(LIMIT - 4))).body["chat_id"])
    newcomers = [stage.user() for _ in range(20)]
    announcer.events.clear()
    answers = all_at_once([partial(owner.add, chat_id, one) for one in newcomers])
    joined = {one.user_id for one, answer in zip(newcomers, answers, strict=True) if answer.status == 200}
    assert {answer.code for answer in answers} <= {None, "group_full"}
    assert len(joined) <= 3
    assert stage.memberships.count(chat_id) == LIMIT - 3 + len(joined)
    assert {event.payload["user_id"] for event in announcer.events} == joined


def test_far_from_the_limit_members_are_counted_once_and_only_the_number_travels(
    database: Database, announcer: RecordingAnnouncer
) -> None:
    stage = Stage(database, announcer, SystemClock())
    with override_settings(ROOT_URLCONF=stage.urlconf()), captured(database) as requests:
        owner = stage.user()
        chat_id = owner.create_group().body["chat_id"]
        requests.clear()
        owner.add(chat_id, stage.user())
    queries = [kwargs for operation, kwargs in requests if operation == "Query"]
    assert [(query["Select"], query["ConsistentRead"]) for query in queries] == [("COUNT", True)]
