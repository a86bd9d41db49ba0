"""Reads the event log beside the consumer groups: from a time on, up to its present end.

Joins no group and commits nothing, so it disturbs no consumer.
"""

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from zlib import crc32

from confluent_kafka import Consumer, KafkaException, TopicPartition

from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka.consumer import Record, record_of
from foundation.stores.kafka.options import KafkaOptions

TIMEOUT = 10.0
STALLED_AFTER = 30.0
POLL_TIMEOUT = 0.5
BATCH = 2000
FETCH_WAIT_MS = 10
"""Requests wait behind a fetch at the end of the log, and the reader asks for nothing behind that end."""
# Required by the client library. Nothing is committed to it.
GROUP = "parley-reader"


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of a topic by partition: from `first` up to, and without, `end`.

    `trimmed` are the partitions that begin within the span: Kafka may have deleted what came before.
    """

    topic: str
    first: Mapping[int, int]
    end: Mapping[int, int]
    trimmed: frozenset[int]

    @property
    def size(self) -> int:
        return sum(self.end.values()) - sum(self.first.values())


class LogReader:
    """Not thread-safe. Every call raises `EventLogUnavailable` when no broker answers in time."""

    def __init__(self, options: KafkaOptions) -> None:
        self._consumer = Consumer(
            {
                **options.common(),
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": FETCH_WAIT_MS,
            }
        )

    def span(self, topic: str, since: datetime, *, keys: Collection[str] = ()) -> Span:
        """What the topic holds from `since` to its present end; of the partitions of these keys, if there are any.

        They are those of the topic as it is now: while it had fewer partitions, a key may have had another.
        """
        try:
            partitions = partitions_of(self._consumer, topic)
            if keys:
                partitions = sorted({partition_of(key, len(partitions)) for key in keys})
            marks = {number: self._watermarks(topic, number) for number in partitions}
            begins = offsets_at(self._consumer, topic, partitions, since)
        except KafkaException as error:
            raise EventLogUnavailable(f"{topic} cannot be read: {error.args[0].str()}") from error
        first = {number: begins.get(number, marks[number][1]) for number in partitions}
        trimmed = frozenset(number for number in partitions if 0 < marks[number][0] == first[number])
        return Span(topic, first, {number: marks[number][1] for number in partitions}, trimmed)

    def read(self, span: Span) -> Iterator[list[Record]]:
        """The records of the span, batch by batch, each partition in its order."""
        left = {number: end - span.first[number] for number, end in span.end.items() if span.first[number] < end}
        self._assign(span.topic, {number: span.first[number] for number in left})
        received_at = time.monotonic()
        while left:
            records = self._poll(sum(left.values()))
            if records:
                received_at = time.monotonic()
            elif time.monotonic() - received_at > STALLED_AFTER:
                raise EventLogUnavailable(f"{span.topic} could not be read to its end")
            left |= {each.partition: span.end[each.partition] - 1 - each.offset for each in records}
            left = {number: count for number, count in left.items() if count > 0}
            yield [each for each in records if each.offset < span.end[each.partition]]
        self._consumer.unassign()

    def continued(self, span: Span) -> Span:
        """What came behind a span since. It begins elsewhere where Kafka has deleted some, or began a new log."""
        try:
            partitions = partitions_of(self._consumer, span.topic)
            marks = {number: self._watermarks(span.topic, number) for number in partitions}
        except KafkaException as error:
            raise EventLogUnavailable(f"{span.topic} cannot be read: {error.args[0].str()}") from error
        first = {number: _within(span.end.get(number, 0), *marks[number]) for number in partitions}
        return Span(span.topic, first, {number: marks[number][1] for number in partitions}, trimmed=frozenset())

    def _poll(self, at_most: int) -> list[Record]:
        """Waits for so many, at most for `POLL_TIMEOUT`."""
        messages = self._consumer.consume(min(BATCH, at_most), POLL_TIMEOUT)
        return [record for message in messages if (record := record_of(message)) is not None]

    def close(self) -> None:
        self._consumer.close()

    def _assign(self, topic: str, offsets: Mapping[int, int]) -> None:
        self._consumer.assign([TopicPartition(topic, number, offset) for number, offset in offsets.items()])

    def _watermarks(self, topic: str, number: int) -> tuple[int, int]:
        marks: tuple[int, int] = self._consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=TIMEOUT)
        return marks


def _within(offset: int, low: int, high: int) -> int:
    """The offset, or the oldest one of a log that does not hold it."""
    return offset if low <= offset <= high else low


def partition_of(key: str, partitions: int) -> int:
    """Where the producer publishes the events of a key: librdkafka's partitioner `consistent_random`, its default."""
    return crc32(key.encode()) % partitions


def partitions_of(consumer: Consumer, topic: str) -> list[int]:
    """Raises `EventLogUnavailable` when the topic does not exist."""
    found = consumer.list_topics(topic, timeout=TIMEOUT).topics[topic]
    if found.error is not None:
        raise EventLogUnavailable(f"No topic {topic}: the operator runs `manage.py create_topics`")
    return sorted(found.partitions)


def offsets_at(consumer: Consumer, topic: str, partitions: list[int], moment: datetime) -> dict[int, int]:
    """The offset of the first event of this time or later in each partition that has one. Raises `KafkaException`."""
    milliseconds = max(0, int(moment.timestamp() * 1000))
    asked = [TopicPartition(topic, number, milliseconds) for number in partitions]
    found = without_errors(consumer.offsets_for_times(asked, timeout=TIMEOUT))
    return {each.partition: each.offset for each in found if each.offset >= 0}


def without_errors(found: list[TopicPartition]) -> list[TopicPartition]:
    """What a broker told of each partition. Raises `KafkaException` if it could not tell of one."""
    for each in found:
        if each.error is not None:
            raise KafkaException(each.error)
    return found
