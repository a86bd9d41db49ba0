"""The whole path with a real Kafka, also during and after an outage."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from foundation.kernel.events import Event
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import Database
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka import EventConsumer, EventProducer, KafkaOptions, Outgoing
from tests.doubles import SettableClock, eventually, halted
from tests.engines import choice
from tests.engines.choice import AnyKafka
from tests.integration.messaging.services import Services


@pytest.fixture(scope="module")
def engine() -> Iterator[AnyKafka]:
    """An engine of this module's own: no other test notices when it stops."""
    engine = choice.make_kafka()
    with engine:
        yield engine


@pytest.fixture
def options(engine: AnyKafka) -> KafkaOptions:
    return KafkaOptions(bootstrap_servers=engine.endpoint, publish_timeout=15.0)


@pytest.fixture
def producer(options: KafkaOptions) -> Iterator[EventProducer]:
    producer = EventProducer(options)
    yield producer
    producer.close()


@contextmanager
def outage(producer: EventProducer, engine: AnyKafka) -> Iterator[None]:
    """Stop Kafka, and shorten the producer's timeout meanwhile."""
    with pytest.MonkeyPatch.context() as patch, halted(engine.process.pid):
        patch.setattr(producer, "_options", replace(producer._options, publish_timeout=1.0))
        yield


@pytest.fixture
def services(database: Database, clock: SettableClock, producer: EventProducer) -> Iterator[Services]:
    warm_up = Event("MessagePersisted", "evt_0", clock.now(), "the first waits for the connection", {})
    producer.publish_and_wait([Outgoing(warm_up)], timeout=30)
    services = Services(database, clock, producer=producer)
    yield services
    services.close()


class Log:
    """What Kafka holds of a chat, read from the beginning."""

    def __init__(self, options: KafkaOptions, chat_id: ChatId) -> None:
        self.sequences: list[int] = []
        self._chat_id = chat_id
        self._consumer = EventConsumer(options, group=f"reader-{chat_id}", topics=["messages.persisted"])

    def holds(self, count: int) -> bool:
        records = self._consumer.read(timeout=0.05)
        self.sequences += [
            Event.decode(record.value).payload["sequence"] for record in records if record.key == self._chat_id
        ]
        return len(self.sequences) >= count

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def log(options: KafkaOptions, chat: ChatId) -> Iterator[Log]:
    log = Log(options, chat)
    yield log
    log.close()


class TestPublishing:
    def test_kafka_has_a_chats_messages_in_the_order_of_their_sequences(
        self, services: Services, chat: ChatId, ann: UserId, log: Log
    ) -> None:
        answers = [services.submit(services.draft(chat, ann, f"id-{number}")) for number in range(300)]
        for answer in answers:
            answer.result(20)
        eventually(lambda: log.holds(300), within=30)
        assert log.sequences == list(range(1, 301))

    def test_an_outage_is_reported_and_the_messages_are_published_in_order_without_a_retry(
        self, services: Services, chat: ChatId, ann: UserId, log: Log, engine: AnyKafka, producer: EventProducer
    ) -> None:
        services.send(services.draft(chat, ann, "before"))
        with outage(producer, engine):
            answers = [services.submit(services.draft(chat, ann, f"during-{number}")) for number in range(60)]
            assert {type(answer.exception(20)) for answer in answers} == {EventLogUnavailable}
            assert len(services.stored(chat)) == 61
        assert services.send(services.draft(chat, ann, "after")).message.sequence == 62
        eventually(lambda: log.holds(62), within=30)
        assert log.sequences == list(range(1, 63))

    def test_a_retry_after_an_outage_gets_the_first_sequence_and_publishes_it(
        self, services: Services, chat: ChatId, ann: UserId, log: Log, engine: AnyKafka, producer: EventProducer
    ) -> None:
        with outage(producer, engine), pytest.raises(EventLogUnavailable):
            services.send(services.draft(chat, ann))
        again = services.send(services.draft(chat, ann))
        assert (again.message.sequence, again.duplicate) == (1, True)
        eventually(lambda: log.holds(1), within=30)
        assert set(log.sequences) == {1}
