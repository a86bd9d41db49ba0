"""Sending, on the engine and on moto alike."""

from collections.abc import Iterator

import pytest

from chats.errors import ChatNotFound
from config.wiring.commands import TABLES
from foundation.kernel.ids import ChatId, ConnectionId, UserId
from foundation.stores.dynamodb import Database, DynamoDBOptions, schema
from foundation.stores.errors import EventLogUnavailable, StoreUnavailable
from messaging.domain import Draft
from messaging.errors import ClientMessageIdConflict
from messaging.stores.idempotency import MESSAGE_KEY_SECONDS
from tests.doubles import SettableClock
from tests.integration.messaging.stage import Stage


@pytest.fixture(scope="module")
def moto_database(moto_url: str) -> Database:
    database = Database(DynamoDBOptions(region="us-east-1", endpoint_url=moto_url))
    schema.create_missing(database, TABLES, report=lambda line: None)
    return database


@pytest.fixture(params=["engine", "moto"])
def stage(request: pytest.FixtureRequest, clock: SettableClock) -> Iterator[Stage]:
    database = request.getfixturevalue("database" if request.param == "engine" else "moto_database")
    stage = Stage(database, clock)
    yield stage
    stage.close()


class TestSending:
    def test_messages_get_the_sequences_1_2_3(self, stage: Stage, chat: ChatId, ann: UserId, bob: UserId) -> None:
        sent = [
            stage.committer.send(stage.draft(chat, sender, f"id-{number}", f"text {number}"))
            for number, sender in enumerate([ann, bob, ann])
        ]
        assert [each.message.sequence for each in sent] == [1, 2, 3]
        assert [each.duplicate for each in sent] == [False] * 3
        assert stage.stored(chat) == [each.message for each in sent]
        assert stage.counters.find(chat) == 3

    def test_a_message_is_what_was_sent(self, stage: Stage, chat: ChatId, ann: UserId) -> None:
        message = stage.committer.send(stage.draft(chat, ann, "id-1", "héllo 😀\n")).message
        assert message.content == "héllo 😀\n"
        assert (message.sender_id, message.client_message_id, message.chat_id) == (ann, "id-1", chat)
        assert message.created_at == "2035-01-30T14:30:00.000Z"
        assert message.message_id.startswith("msg_")

    def test_many_drafts_at_once_are_stored_in_the_order_of_submission(
        self, stage: Stage, chat: ChatId, ann: UserId
    ) -> None:
        answers = [stage.committer.submit(stage.draft(chat, ann, f"id-{number}")) for number in range(120)]
        assert [answer.result(20).message.sequence for answer in answers] == list(range(1, 121))
        assert [message.client_message_id for message in stage.stored(chat)] == [f"id-{n}" for n in range(120)]

    def test_who_is_not_a_member_gets_chat_not_found_and_nothing_is_stored(self, stage: Stage, chat: ChatId) -> None:
        with pytest.raises(ChatNotFound):
            stage.committer.send(stage.draft(chat, stage.ids.user()))
        assert stage.stored(chat) == []
        assert stage.played.events == []

    def test_membership_is_checked_each_time(self, stage: Stage, chat: ChatId, ann: UserId) -> None:
        stage.committer.send(stage.draft(chat, ann, "id-1"))
        stage.remove(chat, ann)
        with pytest.raises(ChatNotFound):
            stage.committer.send(stage.draft(chat, ann, "id-2"))

    def test_a_membership_of_a_chat_that_does_not_exist_yet_is_not_enough(self, stage: Stage, ann: UserId) -> None:
        unborn = stage.create_chat(ann)
        stage.database.connection.dispatch(
            "DeleteItem",
            {
                "TableName": stage.database.table_name(
                    stage.counters.creating(unborn, now=stage.clock.now()).pattern.model
                ),
                "Key": {"chat_id": {"S": unborn}},
            },
        )
        with pytest.raises(ChatNotFound):
            stage.committer.send(stage.draft(unborn, ann))

    @pytest.mark.parametrize("chat_id", ["", "chat_nope", "request#user_1", "direct#a#b"])
    def test_an_id_that_names_no_chat_is_not_looked_for(self, stage: Stage, ann: UserId, chat_id: str) -> None:
        with pytest.raises(ChatNotFound):
            stage.committer.send(stage.draft(ChatId(chat_id), ann))
        assert stage.wire.requests == []

    def test_a_stranger_in_a_batch_does_not_hold_up_the_members(self, stage: Stage, chat: ChatId, ann: UserId) -> None:
        stranger = stage.ids.user()
        with stage.wire.held("BatchGetItem") as arrived:
            first = stage.committer.submit(stage.draft(chat, ann, "id-0"))
            assert arrived.wait(10)
            mixed = [
                stage.committer.submit(stage.draft(chat, sender, f"id-{number}"))
                for number, sender in enumerate([ann, stranger, ann], start=1)
            ]
        assert first.result(20).message.sequence == 1
        assert [mixed[0].result(20).message.sequence, mixed[2].result(20).message.sequence] == [2, 3]
        assert isinstance(mixed[1].exception(20), ChatNotFound)


class TestEvents:
    def test_each_message_is_announced_in_the_order_of_its_sequence(
        self, stage: Stage, chat: ChatId, ann: UserId
    ) -> None:
        answers = [stage.committer.submit(stage.draft(chat, ann, f"id-{number}")) for number in range(60)]
        messages = [answer.result(20).message for answer in answers]
        assert [event.payload for event in stage.played.events] == [message.to_json() for message in messages]
        assert {event.event_type for event in stage.played.events} == {"MessagePersisted"}
        assert {event.partition_key for event in stage.played.events} == {chat}
        assert len({event.event_id for event in stage.played.events}) == 60

    def test_the_origin_travels_beside_the_event(self, stage: Stage, chat: ChatId, ann: UserId) -> None:
        origin = ConnectionId("gw-1.conn_01JJW3S0A0G5ZB1M2N3P4Q5R6S")
        stage.committer.send(Draft(chat, ann, "id-1", "hello", origin=origin))
        stage.committer.send(Draft(chat, ann, "id-2", "hello"))
        assert [outgoing.headers for outgoing in stage.played.outgoing] == [
            (("origin-connection-id", origin.encode()),),
            (),
        ]

    def test_while_kafka_is_away_the_message_is_stored_and_the_sender_told_to_send_again(
        self, stage: Stage, chat: ChatId, ann: UserId
    ) -> None:
        stage.played.away = True
        with pytest.raises(EventLogUnavailable) as refused:
            stage.committer.send(stage.draft(chat, ann))
        assert refused.value.code == "fanout_unavailable"
        (stored,) = stage.stored(chat)
        stage.played.away = False
        again = stage.committer.send(stage.draft(chat, ann))
        assert again.message == stored
        assert again.duplicate
        assert [event.payload for event in stage.played.events] == [stored.to_json()]

    def test_nothing_is_announced_when_the_store_failed(self, stage: Stage, chat: ChatId, ann: UserId) -> None:
        stage.wire.fail("TransactWriteItems", [StoreUnavailable("away")] * 100)
        with pytest.raises(StoreUnavailable):
            stage.committer.send(stage.draft(chat, ann))
        assert stage.played.events == []
        assert stage.stored(chat) == []


class TestRetries:
    def test_a_retry_returns_the_first_message_and_announces_it_again(
        self, stage: Stage, chat: ChatId, ann: UserId, clock: SettableClock
    ) -> None:
        first = stage.committer.send(stage.draft(chat, ann))
        clock.advance(hours=1)
        again = stage.committer.send(stage.draft(chat, ann))
        assert again.message == first.message
        assert again.duplicate
        assert [event.payload for event in stage.played.events] == [first.message.to_json()] * 2
        assert len(stage.stored(chat)) == 1

    def test_the_same_id_twice_in_one_batch_is_one_message(self, stage: Stage, chat: ChatId, ann: UserId) -> None:
        with stage.wire.held("BatchGetItem") as arrived:
            opening = stage.committer.submit(stage.draft(chat, ann, "opening"))
            assert arrived.wait(10)
            twins = [stage.committer.submit(stage.draft(chat, ann, "twin")) for _ in range(3)]
        opening.result(20)
        sent = [twin.result(20) for twin in twins]
        assert {each.message.sequence for each in sent} == {2}
        assert [each.duplicate for each in sent] == [False, True, True]
        assert len(stage.stored(chat)) == 2

    def test_the_same_id_with_other_content_in_one_batch_is_a_conflict(
        self, stage: Stage, chat: ChatId, ann: UserId
    ) -> None:
        with stage.wire.held("BatchGetItem") as arrived:
            first = stage.committer.submit(stage.draft(chat, ann, "same", "one"))
            assert arrived.wait(10)
            second = stage.committer.submit(stage.draft(chat, ann, "same", "two"))
        assert first.result(20).message.content == "one"
        assert isinstance(second.exception(20), ClientMessageIdConflict)

    def test_the_same_id_of_two_senders_in_one_batch_is_a_conflict_for_the_second(
        self, stage: Stage, chat: ChatId, ann: UserId, bob: UserId
    ) -> None:
        with stage.wire.held("BatchGetItem") as arrived:
            opening = stage.committer.submit(stage.draft(chat, ann, "opening"))
            assert arrived.wait(10)
            first = stage.committer.submit(stage.draft(chat, ann, "same"))
            second = stage.committer.submit(stage.draft(chat, bob, "same"))
        opening.result(20)
        assert first.result(20).message.sequence == 2
        assert isinstance(second.exception(20), ClientMessageIdConflict)

    def test_an_id_that_another_sender_used_is_a_conflict_that_tells_nothing(
        self, stage: Stage, chat: ChatId, ann: UserId, bob: UserId
    ) -> None:
        secret = stage.committer.send(stage.draft(chat, ann, "same", "a secret")).message
        with pytest.raises(ClientMessageIdConflict) as refused:
            stage.committer.send(stage.draft(chat, bob, "same", "a secret"))
        told = f"{refused.value.detail} {refused.value.fields}"
        assert not any(part in told for part in (ann, "a secret", secret.message_id))

    def test_a_stranger_with_a_used_id_still_learns_nothing(self, stage: Stage, chat: ChatId, ann: UserId) -> None:
        stage.committer.send(stage.draft(chat, ann, "same"))
        with pytest.raises(ChatNotFound):
            stage.committer.send(stage.draft(chat, stage.ids.user(), "same"))

    def test_the_same_id_with_other_content_is_a_conflict(self, stage: Stage, chat: ChatId, ann: UserId) -> None:
        stage.committer.send(stage.draft(chat, ann, "same", "one"))
        with pytest.raises(ClientMessageIdConflict):
            stage.committer.send(stage.draft(chat, ann, "same", "two"))
        assert [message.content for message in stage.stored(chat)] == ["one"]

    def test_the_same_id_in_another_chat_is_another_message(self, stage: Stage, chat: ChatId, ann: UserId) -> None:
        other = stage.create_chat(ann)
        assert not stage.committer.send(stage.draft(chat, ann)).duplicate
        assert not stage.committer.send(stage.draft(other, ann)).duplicate

    def test_an_expired_key_counts_as_absent_though_it_is_still_there(
        self, stage: Stage, chat: ChatId, ann: UserId, clock: SettableClock
    ) -> None:
        stage.committer.send(stage.draft(chat, ann))
        clock.advance(seconds=MESSAGE_KEY_SECONDS - 1)
        assert stage.committer.send(stage.draft(chat, ann)).duplicate
        clock.advance(seconds=1)
        anew = stage.committer.send(stage.draft(chat, ann))
        assert (anew.duplicate, anew.message.sequence) == (False, 2)
        assert stage.committer.send(stage.draft(chat, ann)).message.sequence == 2
