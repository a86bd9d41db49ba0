"""Consumer groups for operators: who is in them, how far they are, and moving them to another place of the log."""

from collections.abc import Iterable, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from datetime import datetime

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka.options import KafkaOptions
from foundation.stores.kafka.reader import TIMEOUT, offsets_at, partitions_of, without_errors


@dataclass(frozen=True, slots=True)
class Progress:
    """A group's place in a partition, which holds the offsets from `first` up to `end`. None: nothing committed."""

    topic: str
    partition: int
    committed: int | None
    first: int
    end: int

    @property
    def lag(self) -> int:
        """Events that the group has not processed yet."""
        return self.end - max(self.first, self.committed if self.committed is not None else self.first)


class ConsumerGroup:
    """One group. Every call raises `EventLogUnavailable` when no broker answers in time, or one refuses."""

    def __init__(self, options: KafkaOptions, name: str) -> None:
        self.name = name
        self._admin = AdminClient(options.common())
        self._consumer = Consumer({**options.common(), "group.id": name, "enable.auto.commit": False})

    def members(self) -> list[str]:
        """The ids of the consumers that are in the group now."""
        try:
            future = self._admin.describe_consumer_groups([self.name], request_timeout=TIMEOUT)[self.name]
            return sorted(member.member_id for member in future.result(TIMEOUT + 1.0).members)
        except (KafkaException, FutureTimeout) as error:
            raise self._failed("described", error) from error

    def progress(self, topics: Iterable[str]) -> list[Progress]:
        """Where the group is in each partition of these topics."""
        try:
            places = [
                TopicPartition(topic, number) for topic in topics for number in partitions_of(self._consumer, topic)
            ]
            committed = without_errors(self._consumer.committed(places, timeout=TIMEOUT))
            return [self._progress(place) for place in committed]
        except KafkaException as error:
            raise self._failed("read", error) from error

    def offset_at(self, place: Progress, moment: datetime | None) -> int:
        """The first event of this time or later, else the end; without a time, the oldest event that is left."""
        if moment is None:
            return place.first
        try:
            found = offsets_at(self._consumer, place.topic, [place.partition], moment)
        except KafkaException as error:
            raise self._failed("read", error) from error
        return found.get(place.partition, place.end)

    def move(self, targets: Sequence[tuple[Progress, int]]) -> None:
        """Commit new offsets. Kafka refuses while the group has members."""
        offsets = [TopicPartition(place.topic, place.partition, offset) for place, offset in targets]
        try:
            committed = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            raise self._failed("moved", error) from error
        if refused := [each.error for each in committed or () if each.error is not None]:
            raise EventLogUnavailable(f"The group {self.name} cannot be moved: {refused[0].str()}")

    def close(self) -> None:
        self._consumer.close()

    def _progress(self, place: TopicPartition) -> Progress:
        first, end = self._consumer.get_watermark_offsets(place, timeout=TIMEOUT)
        return Progress(place.topic, place.partition, place.offset if place.offset >= 0 else None, first, end)

    def _failed(self, done: str, error: Exception) -> EventLogUnavailable:
        return EventLogUnavailable(f"The group {self.name} cannot be {done}: {error}")
