"""A group stays within its member limit, also under concurrent joins."""

from collections.abc import Iterator
from functools import partial

import pytest

from chats.domain import Role
from chats.errors import GroupFull
from chats.models import CounterModel
from foundation.kernel.clock import SystemClock
from foundation.kernel.ids import ChatId
from foundation.stores.dynamodb import Database
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
    assert services.count_members(ChatId(chat_id)) == LIMIT


def test_a_member_of_a_full_group_is_already_a_member(services: Services) -> None:
    owner, others = services.user(), [services.user() for _ in range(LIMIT - 1)]
    chat_id = owner.create_group(*others).body["chat_id"]
    assert owner.add(chat_id, others[0]).code == "already_a_member"


def test_a_place_that_is_left_can_be_taken(services: Services) -> None:
    owner, others = services.user(), [services.user() for _ in range(LIMIT - 1)]
    chat_id = owner.create_group(*others).body["chat_id"]
    others[0].remove(chat_id, others[0])
    assert owner.add(chat_id, services.user()).status == 200


def test_a_join_that_finds_the_last_place_taken_is_refused(
    services: Services, database: Database, published: RecordingProducer
) -> None:
    owner, first, second = services.user(), services.user(), services.user()
    chat_id = ChatId(owner.create_group(*(services.user() for _ in range(LIMIT - 2))).body["chat_id"])
    other_process = Services(database, published, SystemClock(), member_limit=LIMIT)
    with (
        just_before(
            database,
            "TransactWriteItems",
            lambda: other_process.members.add(chat_id, owner.user_id, first.user_id, Role.MEMBER),
        ),
        pytest.raises(GroupFull),
    ):
        services.members.add(chat_id, owner.user_id, second.user_id, Role.MEMBER)
    assert services.count_members(chat_id) == LIMIT
    assert (services.role_of(chat_id, first), services.role_of(chat_id, second)) == ("member", None)


def test_many_joins_at_once_fill_the_group_and_not_more(services: Services, published: RecordingProducer) -> None:
    owner = services.user()
    chat_id = ChatId(owner.create_group(*(services.user() for _ in range(LIMIT - 4))).body["chat_id"])
    newcomers = [services.user() for _ in range(20)]
    published.events.clear()
    answers = all_at_once([partial(owner.add, chat_id, one) for one in newcomers])
    joined = {one.user_id for one, answer in zip(newcomers, answers, strict=True) if answer.status == 200}
    assert {answer.code for answer in answers} <= {None, "group_full"}
    assert len(joined) == 3, "every place is given, and no place twice"
    assert services.count_members(chat_id) == LIMIT
    assert {event.payload["user_id"] for event in published.events if event.event_type == "MembershipChanged"} == joined


def test_members_are_counted_with_every_change_and_not_read(services: Services, database: Database) -> None:
    owner, other = services.user(), services.user()
    chat_id = ChatId(owner.create_group(services.user()).body["chat_id"])
    with captured(database) as requests:
        owner.add(chat_id, other)
        owner.remove(chat_id, other)
        owner.add(chat_id, other)
    assert "Query" not in [operation for operation, _ in requests]
    assert _counted(services, chat_id) == 3


def test_a_chat_that_is_older_than_the_count_is_counted_once(services: Services, database: Database) -> None:
    owner = services.user()
    chat_id = ChatId(owner.create_group(services.user()).body["chat_id"])
    database.call(
        "UpdateItem",
        {
            "TableName": database.table_name(CounterModel),
            "Key": {"chat_id": {"S": chat_id}},
            "UpdateExpression": "REMOVE members",
        },
    )
    with captured(database) as requests:
        owner.add(chat_id, services.user())
        owner.add(chat_id, services.user())
    queries = [kwargs for operation, kwargs in requests if operation == "Query"]
    assert [(query["Select"], query["ConsistentRead"]) for query in queries] == [("COUNT", True)]
    assert _counted(services, chat_id) == 4


def _counted(services: Services, chat_id: ChatId) -> int | None:
    found = services.database.batch_get(services.posting.counter_lookup([chat_id]))
    return services.posting.counter_states_among(found)[chat_id].members
