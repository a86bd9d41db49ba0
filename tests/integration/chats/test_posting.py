"""Membership checks and counters for reading and writing messages."""

import pytest

from chats.domain import CounterState, Membership, Role
from foundation.kernel.ids import ChatId
from foundation.stores.errors import TransactionCancelled
from tests.integration.chats.services import Person, Services


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
        assert [services.counters.find(each) for each in (chat_id, incomplete, services.ids.chat())] == [
            0,
            None,
            None,
        ]

    def test_it_moves_from_where_it_stands(self, services: Services, chat_id: ChatId) -> None:
        now = services.clock.now()
        services.database.transact(
            [services.posting.moving_counter(chat_id, current=CounterState(0), after=CounterState(3), now=now)]
        )
        assert services.counters.find(chat_id) == 3

    def test_it_does_not_move_from_elsewhere_nor_out_of_nothing(
        self, services: Services, chat_id: ChatId, incomplete: ChatId
    ) -> None:
        for where, current in ((chat_id, 1), (incomplete, 0)):
            moving = services.posting.moving_counter(
                where, current=CounterState(current), after=CounterState(current + 1), now=services.clock.now()
            )
            with pytest.raises(TransactionCancelled):
                services.database.transact([moving])
        assert [services.counters.find(each) for each in (chat_id, incomplete)] == [0, None]
