"""A group stays within its member limit, also under concurrent joins (ADR-012)."""

from collections.abc import Iterator
from functools import partial

import pytest

from chats.domain import Membership, Role
from chats.errors import GroupFull
from chats.services.leaving import Leaving
from foundation.kernel.clock import SystemClock
from foundation.kernel.ids import ChatId
from foundation.stores.dynamodb import Database
from foundation.stores.errors import TransactionConflict
from tests.integration.chats.services import RecordingProducer, Services, all_at_once, captured, just_before

LIMIT = 12


@pytest.fixture
def services(database: Database, published: RecordingProducer) -> Iterator[Services]:
    """Groups of twelve, so that the limit is near."""
    with Services(database, published, SystemClock(), member_limit=LIMIT).serving() as services:
        yield services


def test_the_last_place_is_given_and_no_other(services: Services) -> None:
    owner = services.user()
    chat_id = owner.create_group(*(services.user() for _ in range(LIMIT - 2))).body["chat_id"]
    assert owner.add(chat_id, services.user()).status == 200
    answer = owner.add(chat_id, services.user())
    assert (answer.status, answer.code) == (409, "group_full")
    assert services.memberships.count(ChatId(chat_id)) == LIMIT


def test_a_member_of_a_full_group_is_already_a_member(services: Services) -> None:
    owner, others = services.user(), [services.user() for _ in range(LIMIT - 1)]
    chat_id = owner.create_group(*others).body["chat_id"]
    assert owner.add(chat_id, others[0]).code == "already_a_member"


def test_a_place_that_is_left_can_be_taken(services: Services) -> None:
    owner, others = services.user(), [services.user() for _ in range(LIMIT - 1)]
    chat_id = owner.create_group(*others).body["chat_id"]
    others[0].remove(chat_id, others[0])
    assert owner.add(chat_id, services.user()).status == 200


def test_a_join_over_the_limit_is_undone(services: Services, database: Database, published: RecordingProducer) -> None:
    owner, first, second = services.user(), services.user(), services.user()
    chat_id = ChatId(owner.create_group(*(services.user() for _ in range(LIMIT - 2))).body["chat_id"])
    published.events.clear()
    with (
        just_before(database, "PutItem", lambda: owner.add(chat_id, first)),
        pytest.raises(GroupFull),
    ):
        services.members.add(chat_id, owner.user_id, second.user_id, Role.MEMBER)
    assert services.memberships.count(chat_id) == LIMIT
    assert (services.role_of(chat_id, first), services.role_of(chat_id, second)) == ("member", None)
    assert [event.payload["user_id"] for event in published.events] == [first.user_id]


def test_a_join_that_cannot_be_undone_stands_and_is_published(
    services: Services, database: Database, published: RecordingProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages kept the counter busy: one member too many is better than a member without an event."""

    def held_up(_leaving: Leaving, _seen: Membership) -> None:
        raise TransactionConflict("busy")

    owner, first, second = services.user(), services.user(), services.user()
    chat_id = ChatId(owner.create_group(*(services.user() for _ in range(LIMIT - 2))).body["chat_id"])
    published.events.clear()
    monkeypatch.setattr(Leaving, "leave", held_up)
    with just_before(database, "PutItem", lambda: owner.add(chat_id, first)):
        services.members.add(chat_id, owner.user_id, second.user_id, Role.MEMBER)
    assert services.memberships.count(chat_id) == LIMIT + 1
    assert [event.payload["user_id"] for event in published.events] == [first.user_id, second.user_id]


def test_many_joins_at_once_never_leave_more_than_the_limit(services: Services, published: RecordingProducer) -> None:
    owner = services.user()
    chat_id = ChatId(owner.create_group(*(services.user() for _ in range(LIMIT - 4))).body["chat_id"])
    newcomers = [services.user() for _ in range(20)]
    published.events.clear()
    answers = all_at_once([partial(owner.add, chat_id, one) for one in newcomers])
    joined = {one.user_id for one, answer in zip(newcomers, answers, strict=True) if answer.status == 200}
    assert {answer.code for answer in answers} <= {None, "group_full"}
    assert len(joined) <= 3
    assert services.memberships.count(chat_id) == LIMIT - 3 + len(joined)
    assert {event.payload["user_id"] for event in published.events} == joined


def test_far_from_the_limit_members_are_counted_once_and_only_the_number_travels(
    database: Database, published: RecordingProducer
) -> None:
    with Services(database, published, SystemClock()).serving() as services, captured(database) as requests:
        owner = services.user()
        chat_id = owner.create_group().body["chat_id"]
        requests.clear()
        owner.add(chat_id, services.user())
    queries = [kwargs for operation, kwargs in requests if operation == "Query"]
    assert [(query["Select"], query["ConsistentRead"]) for query in queries] == [("COUNT", True)]
