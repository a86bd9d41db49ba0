"""Reading the log beside the consumer groups, and moving a group: what operators' tools ask of Kafka."""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from foundation.kernel.events import MESSAGES_PERSISTED, Event
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka import ConsumerGroup, EventConsumer, EventLogAdmin, EventProducer, KafkaOptions, LogReader
from tests.contract.test_event_log import outgoing
from tests.doubles import eventually

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def chat() -> str:
    return f"chat_{uuid.uuid4()}"


@pytest.fixture
def reader(kafka_options: KafkaOptions) -> Iterator[LogReader]:
    reader = LogReader(kafka_options)
    yield reader
    reader.close()


@pytest.fixture
def group(kafka_options: KafkaOptions) -> Iterator[ConsumerGroup]:
    group = ConsumerGroup(kafka_options, f"group-{uuid.uuid4()}")
    yield group
    group.close()


def sequences(reader: LogReader, chat: str, since: datetime) -> list[int]:
    span = reader.span(MESSAGES_PERSISTED, since)
    records = [record for batch in reader.read(span) for record in batch]
    return [Event.decode(each.value).payload["sequence"] for each in records if each.key == chat]


class TestReading:
    def test_everything_up_to_the_present_end_is_read_in_order(
        self, producer: EventProducer, reader: LogReader, chat: str
    ) -> None:
        producer.publish_and_wait([outgoing(chat, sequence) for sequence in (1, 2, 3)])
        assert sequences(reader, chat, LONG_AGO) == [1, 2, 3]

    def test_what_was_published_before_a_time_is_left_out(
        self, producer: EventProducer, reader: LogReader, chat: str
    ) -> None:
        producer.publish_and_wait([outgoing(chat, 1)])
        between = now() + timedelta(milliseconds=1)
        eventually(lambda: now() > between)
        producer.publish_and_wait([outgoing(chat, 2)])
        assert sequences(reader, chat, between) == [2]

    def test_a_span_without_events_ends_at_once(self, reader: LogReader, chat: str) -> None:
        assert sequences(reader, chat, now() + timedelta(hours=1)) == []

    def test_a_span_is_continued_with_what_came_since(
        self, producer: EventProducer, reader: LogReader, chat: str
    ) -> None:
        producer.publish_and_wait([outgoing(chat, 1)])
        span = reader.span(MESSAGES_PERSISTED, LONG_AGO)
        producer.publish_and_wait([outgoing(chat, 2)])
        behind = reader.continued(span)
        records = [record for batch in reader.read(behind) for record in batch if record.key == chat]
        assert [Event.decode(each.value).payload["sequence"] for each in records] == [2]
        assert reader.continued(behind).size == 0

    def test_a_log_that_began_anew_is_read_from_its_beginning(
        self, producer: EventProducer, reader: LogReader, chat: str
    ) -> None:
        producer.publish_and_wait([outgoing(chat, 1)])
        whole = reader.span(MESSAGES_PERSISTED, LONG_AGO)
        longer = replace(whole, end={number: offset + 1000 for number, offset in whole.end.items()})
        assert reader.continued(longer).first == whole.first

    def test_the_partitions_of_some_keys_hold_all_their_events(
        self, producer: EventProducer, reader: LogReader
    ) -> None:
        chats = [f"chat_{uuid.uuid4()}" for _ in range(20)]
        producer.publish_and_wait([outgoing(chat, 1) for chat in chats])
        for chat in chats:
            span = reader.span(MESSAGES_PERSISTED, LONG_AGO, keys=[chat])
            assert len(span.end) == 1
            assert chat in [record.key for batch in reader.read(span) for record in batch]

    def test_a_topic_that_does_not_exist_is_named(self, reader: LogReader) -> None:
        with pytest.raises(EventLogUnavailable, match=r"nowhere"):
            reader.span("nowhere", LONG_AGO)


class TestGroups:
    def test_a_group_is_moved_and_the_next_consumer_starts_there(
        self, producer: EventProducer, kafka_options: KafkaOptions, group: ConsumerGroup, chat: str
    ) -> None:
        producer.publish_and_wait([outgoing(chat, 1)])
        places = group.progress([MESSAGES_PERSISTED])
        assert {place.committed for place in places} == {None}
        group.move([(place, place.end) for place in places])
        assert {place.lag for place in group.progress([MESSAGES_PERSISTED])} == {0}
        producer.publish_and_wait([outgoing(chat, 2)])
        consumer = EventConsumer(kafka_options, group=group.name, topics=[MESSAGES_PERSISTED])
        read: list[int] = []

        def has_read() -> bool:
            records = consumer.read(timeout=0.1)
            read.extend(Event.decode(each.value).payload["sequence"] for each in records if each.key == chat)
            return bool(read)

        eventually(has_read, within=20)
        consumer.close()
        assert read == [2]

    def test_the_place_of_a_time_is_its_first_event_or_the_end(
        self, producer: EventProducer, group: ConsumerGroup, chat: str
    ) -> None:
        producer.publish_and_wait([outgoing(chat, 1)])
        for place in group.progress([MESSAGES_PERSISTED]):
            assert group.offset_at(place, None) == place.first
            assert group.offset_at(place, LONG_AGO) == place.first
            assert group.offset_at(place, now() + timedelta(hours=1)) == place.end

    def test_a_group_with_members_names_them_and_is_not_moved(
        self, producer: EventProducer, kafka_options: KafkaOptions, group: ConsumerGroup, chat: str
    ) -> None:
        producer.publish_and_wait([outgoing(chat, 1)])
        assert group.members() == []
        consumer = EventConsumer(
            replace(kafka_options, session_timeout_ms=6000), group=group.name, topics=[MESSAGES_PERSISTED]
        )
        try:
            eventually(lambda: consumer.read(timeout=0.1), within=20)
            assert len(group.members()) == 1
            places = group.progress([MESSAGES_PERSISTED])
            with pytest.raises(EventLogUnavailable, match=group.name):
                group.move([(place, place.first) for place in places])
        finally:
            consumer.close()


class TestTopics:
    def test_the_retention_of_a_topic_is_told(self, kafka_options: KafkaOptions) -> None:
        admin = EventLogAdmin(kafka_options)
        assert timedelta(0) < admin.retention(MESSAGES_PERSISTED) <= timedelta(days=7)
        assert {len(counts) > 0 for counts in admin.replicas().values()} == {True}

    def test_a_topic_that_does_not_exist_has_no_settings(self, kafka_options: KafkaOptions) -> None:
        with pytest.raises(EventLogUnavailable, match=r"nowhere"):
            EventLogAdmin(kafka_options).settings("nowhere")
