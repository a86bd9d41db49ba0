"""Kafka's protocol: order per key, committed offsets, and a broker that is gone."""

import threading
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from foundation.kernel.events import MESSAGES_PERSISTED, TOPICS, Event
from foundation.stores.errors import EventLogUnavailable, StoreUnavailable
from foundation.stores.kafka import EventConsumer, EventLogAdmin, EventProducer, KafkaOptions, Outgoing, Record
from tests.doubles import eventually
from tests.engines import choice


def outgoing(chat: str, sequence: int, **headers: bytes) -> Outgoing:
    event = Event(
        event_type="MessagePersisted",
        event_id=f"evt_{chat}_{sequence}",
        event_time=datetime(2026, 1, 30, tzinfo=UTC),
        partition_key=chat,
        payload={"chat_id": chat, "sequence": sequence},
    )
    return Outgoing(event, tuple(headers.items()))


class Reader:
    """A consumer with what it has read so far."""

    def __init__(self, options: KafkaOptions, *, group: str) -> None:
        self.consumer = EventConsumer(options, group=group, topics=[MESSAGES_PERSISTED])
        self.records: list[Record] = []

    def wait_for(self, chats: set[str], count: int) -> list[Record]:
        def enough() -> bool:
            self.records += self.consumer.read(timeout=0.1)
            return len(self.of(chats)) >= count

        eventually(enough, within=20)
        return self.of(chats)

    def of(self, chats: set[str]) -> list[Record]:
        return [record for record in self.records if record.key in chats]


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4()}"


@pytest.fixture
def reader(kafka_options: KafkaOptions, group: str) -> Iterator[Reader]:
    reader = Reader(kafka_options, group=group)
    yield reader
    reader.consumer.close()


class TestPublishing:
    def test_the_events_of_a_key_keep_their_order(self, producer: EventProducer, reader: Reader) -> None:
        chats = {f"chat_{uuid.uuid4()}" for _ in range(5)}
        for sequence in range(1, 41):
            producer.publish_and_wait([outgoing(chat, sequence) for chat in chats])
        seen: dict[str, list[int]] = defaultdict(list)
        for record in reader.wait_for(chats, 200):
            seen[record.key].append(Event.decode(record.value).payload["sequence"])
        assert seen == {chat: list(range(1, 41)) for chat in chats}

    def test_key_value_and_headers_arrive_as_they_left(self, producer: EventProducer, reader: Reader) -> None:
        chat = f"chat_{uuid.uuid4()}"
        sent = Outgoing(outgoing(chat, 1).event, (("origin-connection-id", b"gw-1.conn_1"),))
        producer.publish_and_wait([sent])
        (record,) = reader.wait_for({chat}, 1)
        assert (record.topic, record.key) == (MESSAGES_PERSISTED, chat)
        assert Event.decode(record.value) == sent.event
        assert record.headers == {"origin-connection-id": b"gw-1.conn_1"}

    def test_an_empty_batch_is_published_at_once(self, kafka_options: KafkaOptions) -> None:
        producer = EventProducer(kafka_options)
        producer.publish_and_wait([], timeout=0)
        assert producer.close() == 0


class TestProgress:
    def test_what_was_not_committed_is_read_again(
        self, producer: EventProducer, kafka_options: KafkaOptions, group: str
    ) -> None:
        kafka_options = replace(kafka_options, session_timeout_ms=6000)
        chat = f"chat_{uuid.uuid4()}"
        producer.publish_and_wait([outgoing(chat, sequence) for sequence in (1, 2, 3)])
        first = Reader(kafka_options, group=group)
        records = first.wait_for({chat}, 3)
        first.consumer.store_offsets([record for record in first.records if record not in records[1:]])
        first.consumer.close()
        second = Reader(kafka_options, group=group)
        again = second.wait_for({chat}, 2)
        second.consumer.close()
        assert [Event.decode(record.value).payload["sequence"] for record in again] == [2, 3]

    def test_a_batch_is_retried_until_it_succeeds_and_committed_when_the_consumer_stops(
        self, producer: EventProducer, kafka_options: KafkaOptions, group: str
    ) -> None:
        kafka_options = replace(kafka_options, session_timeout_ms=6000)
        chat = f"chat_{uuid.uuid4()}"
        producer.publish_and_wait([outgoing(chat, sequence) for sequence in (1, 2)])
        consumer = EventConsumer(kafka_options, group=group, topics=[MESSAGES_PERSISTED])
        attempts = 0

        def process(records: Sequence[Record]) -> None:
            nonlocal attempts
            attempts += 1
            if attempts == 1:
                raise StoreUnavailable("away")
            if any(record.key == chat and Event.decode(record.value).payload["sequence"] == 2 for record in records):
                consumer.stop()

        consumer.run(process)
        producer.publish_and_wait([outgoing(chat, 3)])
        second = Reader(kafka_options, group=group)
        again = second.wait_for({chat}, 1)
        second.consumer.close()
        assert [Event.decode(record.value).payload["sequence"] for record in again] == [3]

    def test_events_that_wait_when_partitions_move_are_processed_and_no_partition_stays_paused(
        self, producer: EventProducer, kafka_options: KafkaOptions, group: str
    ) -> None:
        kafka_options = replace(kafka_options, session_timeout_ms=6000)
        chats = {f"chat_{uuid.uuid4()}" for _ in range(20)}
        is_broken = threading.Event()
        is_broken.set()
        processed: list[tuple[str, int]] = []

        def process(records: Sequence[Record]) -> None:
            if is_broken.is_set():
                raise StoreUnavailable("away")
            processed.extend((each.key, Event.decode(each.value).payload["sequence"]) for each in records)

        def run() -> EventConsumer:
            consumer = EventConsumer(kafka_options, group=group, topics=[MESSAGES_PERSISTED])
            running.append((consumer, threading.Thread(target=consumer.run, args=[process])))
            running[-1][1].start()
            return consumer

        def is_done(sequence: int) -> bool:
            return {(chat, sequence) for chat in chats} <= set(processed)

        running: list[tuple[EventConsumer, threading.Thread]] = []
        try:
            producer.publish_and_wait([outgoing(chat, 1) for chat in chats])
            first = run()
            eventually(lambda: len(first._stalled()) > 1, within=20)
            second = run()
            eventually(second._stalled, within=20)
            is_broken.clear()
            eventually(lambda: is_done(1), within=20)
            producer.publish_and_wait([outgoing(chat, 2) for chat in chats])
            eventually(lambda: is_done(2), within=20)
        finally:
            for consumer, thread in running:
                consumer.stop()
                thread.join(20)


class TestAdministration:
    def test_the_topics_are_there(self, kafka_options: KafkaOptions) -> None:
        admin = EventLogAdmin(kafka_options)
        assert admin.missing_topics(timeout=5) == []
        assert admin.create_topics(partitions=4, replication=1) == []
        assert len(TOPICS) == 3


class TestOutage:
    def test_a_broker_that_is_gone_is_an_error_before_the_deadline_and_not_a_hang(self) -> None:
        engine = choice.make_kafka()
        with engine as servers:
            options = KafkaOptions(bootstrap_servers=servers, publish_timeout=3.0)
            producer = EventProducer(options)
            producer.publish_and_wait([outgoing("chat", 1)], timeout=20)
            engine.kill()
            with pytest.raises(EventLogUnavailable) as refused:
                producer.publish_and_wait([outgoing("chat", 2)], timeout=0.5)
            assert refused.value.code == "fanout_unavailable"
            assert producer.close(timeout=0.1) == 1
            with pytest.raises(EventLogUnavailable):
                EventLogAdmin(options).require_topics(timeout=0.3)
