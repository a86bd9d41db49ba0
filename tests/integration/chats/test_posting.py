"""Membership checks and counters for reading and writing messages."""

import pytest

from chats.domain import CounterState, Membership, Role
from chats.errors import ChatNotFound
from foundation.kernel.ids import ChatId
from foundation.stores.dynamodb import Database
from foundation.stores.errors import TransactionCancelled
from tests.integration.chats.services import Person, Services, captured


@pytest.fixture
def ada(services: Services) -> Person:
    return services.user()


@pytest.fixture
def chat_id(ada: Person) -> ChatId:
    return ChatId(ada.create_group().body["chat_id"])


@pytest.fixture
def incomplete(services: Services, ada: Person) -> ChatId:
    """A group whose creation ended after its memberships were written."""
    chat_id = services.ids.chat()
    services.memberships.prepare([Membership(chat_id, ada.user_id, Role.MEMBER, services.clock.now())])
    return chat_id


class TestRequireReader:
    def test_a_member_learns_the_latest_sequence_in_one_strong_request(
        self, services: Services, database: Database, ada: Person, chat_id: ChatId
    ) -> None:
        services.say(chat_id, ada.user_id, "hello")
        with captured(database) as requests:
            assert database.loop.run(services.posting.require_reader(chat_id, ada.user_id)) == 1
        [(operation, request)] = requests
        assert operation == "BatchGetItem"
        assert all(part["ConsistentRead"] for part in request["RequestItems"].values())

    def test_without_membership_or_counter_the_chat_is_not_found(
        self, services: Services, ada: Person, chat_id: ChatId, incomplete: ChatId
    ) -> None:
        for wrong in (services.ids.chat(), incomplete, ChatId("chat_1"), ChatId("")):
            with pytest.raises(ChatNotFound):
                services.database.loop.run(services.posting.require_reader(wrong, ada.user_id))
        with pytest.raises(ChatNotFound):
            services.database.loop.run(services.posting.require_reader(chat_id, services.ids.user()))


class TestMemberships:
    def test_a_batch_read_finds_the_members(self, services: Services, ada: Person, chat_id: ChatId) -> None:
        outsider = services.ids.user()
        pairs = [(chat_id, ada.user_id), (chat_id, outsider), (services.ids.chat(), ada.user_id)]
        result = services.database.batch_get(services.posting.membership_lookup(pairs))
        assert services.posting.members_among(result, pairs) == {(chat_id, ada.user_id)}


class TestCounters:
    def test_a_chat_begins_at_zero_and_what_does_not_exist_has_none(
        self, services: Services, chat_id: ChatId, incomplete: ChatId
    ) -> None:
        assert (services.posting.find_counter(chat_id), services.posting.find_counter(incomplete)) == (0, None)
        assert [services.posting.find_counter(each) for each in (chat_id, incomplete, services.ids.chat())] == [
            0,
            None,
            None,
        ]

    def test_it_moves_from_where_it_stands(self, services: Services, chat_id: ChatId) -> None:
        now = services.clock.now()
        services.database.transact(
            [services.posting.moving_counter(chat_id, current=CounterState(0), after=CounterState(3), now=now)]
        )
        assert services.posting.find_counter(chat_id) == 3

    def test_it_does_not_move_from_elsewhere_nor_out_of_nothing(
        self, services: Services, chat_id: ChatId, incomplete: ChatId
    ) -> None:
        for where, current in ((chat_id, 1), (incomplete, 0)):
            moving = services.posting.moving_counter(
                where, current=CounterState(current), after=CounterState(current + 1), now=services.clock.now()
            )
            with pytest.raises(TransactionCancelled):
                services.database.transact([moving])
        assert [services.posting.find_counter(each) for each in (chat_id, incomplete)] == [0, None]
