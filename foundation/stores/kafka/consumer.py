"""Out of the log: records as they come, and how far this group has come."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from foundation.kernel.events import TOPICS
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka.options import KafkaOptions

log = logging.getLogger(__name__)

COMMIT_INTERVAL_MS = 500


@dataclass(frozen=True, slots=True)
class Record:
    """What the log holds at one place."""

    topic: str
    partition: int
    offset: int
    key: str
    value: bytes
    headers: dict[str, bytes]


class EventConsumer:
    """Reads the log as a member of a group, and remembers progress only when told to. Not thread-safe."""

    def __init__(
        self,
        options: KafkaOptions,
        *,
        group: str,
        topics: Sequence[str] = TOPICS,
        on_revoke: Callable[[], None] | None = None,
    ) -> None:
        self._consumer = Consumer(
            {
                **options.common(),
                "group.id": group,
                # What `mark_done` was told goes to the brokers in the background, and at the latest when
                # partitions move or the consumer leaves.
                "enable.auto.commit": True,
                "auto.commit.interval.ms": COMMIT_INTERVAL_MS,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": options.session_timeout_ms,
                "fetch.wait.max.ms": options.fetch_wait_ms,
                "topic.metadata.refresh.interval.ms": 10_000,
            }
        )
        self._consumer.subscribe(list(topics), on_revoke=lambda _consumer, _partitions: on_revoke and on_revoke())

    def read(self, *, limit: int = 500, timeout: float = 1.0) -> list[Record]:
        """Up to `limit` records, as soon as there is one. Empty after `timeout`, also while no broker answers."""
        first = self._consumer.poll(timeout)
        if first is None:
            return []
        messages = [first, *self._consumer.consume(limit - 1, 0)] if limit > 1 else [first]
        return [record for message in messages if (record := _record(message)) is not None]

    def mark_done(self, records: Sequence[Record]) -> None:
        """Note that everything up to these records is done; the brokers learn of it within half a second.

        Raises `EventLogUnavailable` for a partition that is no longer this consumer's.
        """
        highest: dict[tuple[str, int], int] = {}
        for record in records:
            place = (record.topic, record.partition)
            highest[place] = max(highest.get(place, -1), record.offset)
        offsets = [TopicPartition(topic, partition, offset + 1) for (topic, partition), offset in highest.items()]
        try:
            self._consumer.store_offsets(offsets=offsets)
        except KafkaException as error:
            raise EventLogUnavailable("The partition has moved to another consumer") from error

    def lag(self) -> int:
        """Events between what was read and the end of the log, as far as the last answers of the brokers tell."""
        total = 0
        for place in self._consumer.position(self._consumer.assignment()):
            _, end = self._consumer.get_watermark_offsets(place, cached=True)
            total += max(0, end - place.offset) if place.offset >= 0 else 0
        return total

    def close(self) -> None:
        self._consumer.close()


def _record(message: Message) -> Record | None:
    """A record, or None for a notice of the client library, which is logged."""
    if (error := message.error()) is not None:
        log.warning("kafka: %s", error)
        return None
    return Record(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        key=(message.key() or b"").decode("utf-8", "replace"),
        value=message.value() or b"",
        headers=_headers(message),
    )


def _headers(message: Message) -> dict[str, bytes]:
    pairs = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return {name: value for name, value in pairs if value is not None}
