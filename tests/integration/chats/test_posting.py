"""Membership checks and counters for reading and writing messages."""

import pytest

from chats.domain import Membership, Role, Tally
from chats.errors import ChatNotFound
from foundation.kernel.ids import ChatId
from foundation.stores.dynamodb import Database
from foundation.stores.errors import TransactionCancelled
from tests.integration.chats.stage import Person, Stage, captured


@pytest.fixture
def ada(stage: Stage) -> Person:
    return stage.user()


@pytest.fixture
def chat_id(ada: Person) -> ChatId:
    return ChatId(ada.create_group().body["chat_id"])


@pytest.fixture
def incomplete(stage: Stage, ada: Person) -> ChatId:
    """A group whose creation ended after its memberships were written."""
    chat_id = stage.ids.chat()
    stage.memberships.prepare([Membership(chat_id, ada.user_id, Role.MEMBER, stage.clock.now())])
    return chat_id


class TestRequireReader:
    def test_a_member_learns_the_latest_sequence_in_one_strong_request(
        self, stage: Stage, database: Database, ada: Person, chat_id: ChatId
    ) -> None:
        stage.say(chat_id, ada.user_id, "hello")
        with captured(database) as requests:
            assert stage.posting.require_reader(chat_id, ada.user_id) == 1
        [(operation, request)] = requests
        assert operation == "BatchGetItem"
        assert all(part["ConsistentRead"] for part in request["RequestItems"].values())

    def test_without_membership_or_counter_the_chat_is_not_found(
        self, stage: Stage, ada: Person, chat_id: ChatId, incomplete: ChatId
    ) -> None:
        for wrong in (stage.ids.chat(), incomplete, ChatId("chat_1"), ChatId("")):
            with pytest.raises(ChatNotFound):
                stage.posting.require_reader(wrong, ada.user_id)
        with pytest.raises(ChatNotFound):
            stage.posting.require_reader(chat_id, stage.ids.user())


class TestMemberships:
    def test_a_batch_read_finds_the_members(self, stage: Stage, ada: Person, chat_id: ChatId) -> None:
        outsider = stage.ids.user()
        pairs = [(chat_id, ada.user_id), (chat_id, outsider), (stage.ids.chat(), ada.user_id)]
        result = stage.database.batch_get(stage.posting.membership_lookup(pairs))
        assert stage.posting.members_among(result, pairs) == {(chat_id, ada.user_id)}


class TestCounters:
    def test_a_chat_begins_at_zero_and_what_does_not_exist_has_none(
        self, stage: Stage, chat_id: ChatId, incomplete: ChatId
    ) -> None:
        assert (stage.posting.find_counter(chat_id), stage.posting.find_counter(incomplete)) == (0, None)
        assert stage.posting.find_counters([chat_id, incomplete, stage.ids.chat()]) == {chat_id: 0}

    def test_it_moves_from_where_it_stands(self, stage: Stage, chat_id: ChatId) -> None:
        now = stage.clock.now()
        stage.database.transact([stage.posting.moving_counter(chat_id, current=Tally(0), added=3, now=now)])
        assert stage.posting.find_counter(chat_id) == 3

    def test_it_does_not_move_from_elsewhere_nor_out_of_nothing(
        self, stage: Stage, chat_id: ChatId, incomplete: ChatId
    ) -> None:
        for where, current in ((chat_id, 1), (incomplete, 0)):
            moving = stage.posting.moving_counter(where, current=Tally(current), added=1, now=stage.clock.now())
            with pytest.raises(TransactionCancelled):
                stage.database.transact([moving])
        assert stage.posting.find_counters([chat_id, incomplete]) == {chat_id: 0}
