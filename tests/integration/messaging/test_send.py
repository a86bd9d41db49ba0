"""Sending, on the engine and on moto alike."""

from collections.abc import Iterator

import pytest

from chats.errors import ChatNotFound
from foundation.kernel.ids import ChatId, ConnectionId, UserId
from foundation.stores.errors import EventLogUnavailable, StoreUnavailable
from messaging.domain import Draft
from messaging.errors import ClientMessageIdConflict
from messaging.stores.messages import MESSAGE_KEY_SECONDS
from tests.doubles import SettableClock
from tests.integration.messaging.services import Services


@pytest.fixture(params=["engine", "moto"])
def services(request: pytest.FixtureRequest, clock: SettableClock) -> Iterator[Services]:
    database = request.getfixturevalue("database" if request.param == "engine" else "moto_database")
    services = Services(database, clock)
    yield services
    services.close()


class TestSending:
    def test_messages_get_the_sequences_1_2_3(self, services: Services, chat: ChatId, ann: UserId, bob: UserId) -> None:
        sent = [
            services.send(services.draft(chat, sender, f"id-{number}", f"text {number}"))
            for number, sender in enumerate([ann, bob, ann])
        ]
        assert [each.message.sequence for each in sent] == [1, 2, 3]
        assert [each.duplicate for each in sent] == [False] * 3
        assert services.stored(chat) == [each.message for each in sent]
        assert services.counters.find(chat) == 3

    def test_a_message_is_what_was_sent(self, services: Services, chat: ChatId, ann: UserId) -> None:
        message = services.send(services.draft(chat, ann, "id-1", "héllo 😀\n")).message
        assert message.content == "héllo 😀\n"
        assert (message.sender_id, message.client_message_id, message.chat_id) == (ann, "id-1", chat)
        assert message.created_at == "2035-01-30T14:30:00.000Z"
        assert message.message_id.startswith("msg_")

    def test_many_drafts_at_once_are_stored_in_the_order_of_submission(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        answers = [services.submit(services.draft(chat, ann, f"id-{number}")) for number in range(120)]
        assert [answer.result(20).message.sequence for answer in answers] == list(range(1, 121))
        assert [message.client_message_id for message in services.stored(chat)] == [f"id-{n}" for n in range(120)]

    def test_a_sender_who_is_not_a_member_gets_chat_not_found_and_nothing_is_stored(
        self, services: Services, chat: ChatId
    ) -> None:
        with pytest.raises(ChatNotFound):
            services.send(services.draft(chat, services.ids.user()))
        assert services.stored(chat) == []
        assert services.fake_producer.events == []

    def test_membership_is_checked_each_time(self, services: Services, chat: ChatId, ann: UserId) -> None:
        services.send(services.draft(chat, ann, "id-1"))
        services.remove(chat, ann)
        with pytest.raises(ChatNotFound):
            services.send(services.draft(chat, ann, "id-2"))

    def test_a_membership_of_a_chat_that_does_not_exist_yet_is_not_enough(
        self, services: Services, ann: UserId
    ) -> None:
        missing = services.create_chat(ann)
        services.database.call(
            "DeleteItem",
            {
                "TableName": services.database.table_name(
                    services.counters.creating(missing, members=1, now=services.clock.now()).pattern.model
                ),
                "Key": {"chat_id": {"S": missing}},
            },
        )
        with pytest.raises(ChatNotFound):
            services.send(services.draft(missing, ann))

    @pytest.mark.parametrize("chat_id", ["", "chat_nope", "request#user_1", "direct#a#b"])
    def test_an_id_that_names_no_chat_is_not_looked_for(self, services: Services, ann: UserId, chat_id: str) -> None:
        with pytest.raises(ChatNotFound):
            services.send(services.draft(ChatId(chat_id), ann))
        assert services.wire.requests == []

    def test_a_stranger_in_a_batch_does_not_hold_up_the_members(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        stranger = services.ids.user()
        with services.wire.held("BatchGetItem") as arrived:
            first = services.submit(services.draft(chat, ann, "id-0"))
            assert arrived.wait(10)
            mixed = [
                services.submit(services.draft(chat, sender, f"id-{number}"))
                for number, sender in enumerate([ann, stranger, ann], start=1)
            ]
        assert first.result(20).message.sequence == 1
        assert [mixed[0].result(20).message.sequence, mixed[2].result(20).message.sequence] == [2, 3]
        assert isinstance(mixed[1].exception(20), ChatNotFound)


class TestEvents:
    def test_each_message_is_announced_in_the_order_of_its_sequence(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        answers = [services.submit(services.draft(chat, ann, f"id-{number}")) for number in range(60)]
        messages = [answer.result(20).message for answer in answers]
        assert [event.payload for event in services.fake_producer.events] == [message.to_json() for message in messages]
        assert {event.event_type for event in services.fake_producer.events} == {"MessagePersisted"}
        assert {event.partition_key for event in services.fake_producer.events} == {chat}
        assert len({event.event_id for event in services.fake_producer.events}) == 60

    def test_the_origin_travels_beside_the_event(self, services: Services, chat: ChatId, ann: UserId) -> None:
        origin = ConnectionId("gw-1.conn_01JJW3S0A0G5ZB1M2N3P4Q5R6S")
        services.send(Draft(chat, ann, "id-1", "hello", origin=origin))
        services.send(Draft(chat, ann, "id-2", "hello"))
        assert [outgoing.headers for outgoing in services.fake_producer.outgoing] == [
            (("origin-connection-id", origin.encode()),),
            (),
        ]

    def test_while_kafka_is_unavailable_the_message_is_stored_and_the_sender_may_send_again(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        services.fake_producer.unavailable = True
        with pytest.raises(EventLogUnavailable) as refused:
            services.send(services.draft(chat, ann))
        assert refused.value.code == "fanout_unavailable"
        (stored,) = services.stored(chat)
        services.fake_producer.unavailable = False
        again = services.send(services.draft(chat, ann))
        assert again.message == stored
        assert again.duplicate
        assert [event.payload for event in services.fake_producer.events] == [stored.to_json()]

    def test_nothing_is_announced_when_the_store_failed(self, services: Services, chat: ChatId, ann: UserId) -> None:
        services.wire.fail("TransactWriteItems", [StoreUnavailable("no answer")] * 100)
        with pytest.raises(StoreUnavailable):
            services.send(services.draft(chat, ann))
        assert services.fake_producer.events == []
        assert services.stored(chat) == []


class TestRetries:
    def test_a_retry_returns_the_first_message_and_announces_it_again(
        self, services: Services, chat: ChatId, ann: UserId, clock: SettableClock
    ) -> None:
        first = services.send(services.draft(chat, ann))
        clock.advance(hours=1)
        again = services.send(services.draft(chat, ann))
        assert again.message == first.message
        assert again.duplicate
        assert [event.payload for event in services.fake_producer.events] == [first.message.to_json()] * 2
        assert len(services.stored(chat)) == 1

    def test_the_same_id_twice_in_one_batch_is_one_message(self, services: Services, chat: ChatId, ann: UserId) -> None:
        with services.wire.held("BatchGetItem") as arrived:
            opening = services.submit(services.draft(chat, ann, "opening"))
            assert arrived.wait(10)
            twins = [services.submit(services.draft(chat, ann, "twin")) for _ in range(3)]
        opening.result(20)
        sent = [twin.result(20) for twin in twins]
        assert {each.message.sequence for each in sent} == {2}
        assert [each.duplicate for each in sent] == [False, True, True]
        assert len(services.stored(chat)) == 2

    def test_the_same_id_with_other_content_in_one_batch_is_a_conflict(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        with services.wire.held("BatchGetItem") as arrived:
            first = services.submit(services.draft(chat, ann, "same", "one"))
            assert arrived.wait(10)
            second = services.submit(services.draft(chat, ann, "same", "two"))
        assert first.result(20).message.content == "one"
        assert isinstance(second.exception(20), ClientMessageIdConflict)

    def test_a_repeat_is_a_duplicate_also_behind_other_content_with_the_same_id(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        services.send(services.draft(chat, ann, "same", "one"))
        with services.wire.held("BatchGetItem") as arrived:
            opening = services.submit(services.draft(chat, ann, "opening"))
            assert arrived.wait(10)
            other = services.submit(services.draft(chat, ann, "same", "two"))
            again = services.submit(services.draft(chat, ann, "same", "one"))
        opening.result(20)
        assert isinstance(other.exception(20), ClientMessageIdConflict)
        assert (again.result(20).message.sequence, again.result(20).duplicate) == (1, True)

    def test_the_same_id_of_two_senders_in_one_batch_is_a_conflict_for_the_second(
        self, services: Services, chat: ChatId, ann: UserId, bob: UserId
    ) -> None:
        with services.wire.held("BatchGetItem") as arrived:
            opening = services.submit(services.draft(chat, ann, "opening"))
            assert arrived.wait(10)
            first = services.submit(services.draft(chat, ann, "same"))
            second = services.submit(services.draft(chat, bob, "same"))
        opening.result(20)
        assert first.result(20).message.sequence == 2
        assert isinstance(second.exception(20), ClientMessageIdConflict)

    def test_an_id_that_another_sender_used_is_a_conflict_that_tells_nothing(
        self, services: Services, chat: ChatId, ann: UserId, bob: UserId
    ) -> None:
        secret = services.send(services.draft(chat, ann, "same", "a secret")).message
        with pytest.raises(ClientMessageIdConflict) as refused:
            services.send(services.draft(chat, bob, "same", "a secret"))
        shown = f"{refused.value.detail} {refused.value.fields}"
        assert not any(part in shown for part in (ann, "a secret", secret.message_id))

    def test_a_stranger_with_a_used_id_still_learns_nothing(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        services.send(services.draft(chat, ann, "same"))
        with pytest.raises(ChatNotFound):
            services.send(services.draft(chat, services.ids.user(), "same"))

    def test_the_same_id_with_other_content_is_a_conflict(self, services: Services, chat: ChatId, ann: UserId) -> None:
        services.send(services.draft(chat, ann, "same", "one"))
        with pytest.raises(ClientMessageIdConflict):
            services.send(services.draft(chat, ann, "same", "two"))
        assert [message.content for message in services.stored(chat)] == ["one"]

    def test_the_same_id_in_another_chat_is_another_message(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        other = services.create_chat(ann)
        assert not services.send(services.draft(chat, ann)).duplicate
        assert not services.send(services.draft(other, ann)).duplicate

    def test_an_expired_key_counts_as_absent_though_it_is_still_there(
        self, services: Services, chat: ChatId, ann: UserId, clock: SettableClock
    ) -> None:
        services.send(services.draft(chat, ann))
        clock.advance(seconds=MESSAGE_KEY_SECONDS - 1)
        assert services.send(services.draft(chat, ann)).duplicate
        clock.advance(seconds=1)
        anew = services.send(services.draft(chat, ann))
        assert (anew.duplicate, anew.message.sequence) == (False, 2)
        assert services.send(services.draft(chat, ann)).message.sequence == 2
