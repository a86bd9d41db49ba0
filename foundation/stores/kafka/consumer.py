"""Consumes events as a member of a group: read, process, commit."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from foundation.kernel.events import TOPICS
from foundation.kernel.retry import RetryPolicy
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka.options import KafkaOptions
from foundation.stores.metrics import CONSUMER_LAG, EVENTS_SKIPPED

log = logging.getLogger(__name__)

COMMIT_INTERVAL_MS = 500
MAX_RECORDS = 500
READ_TIMEOUT = 0.5
LAG_INTERVAL = 1.0

Process = Callable[[Sequence["Record"]], None]


@dataclass(frozen=True, slots=True)
class Record:
    """An event with its place in the log."""

    topic: str
    partition: int
    offset: int
    key: str
    value: bytes
    headers: dict[str, bytes]


class EventConsumer:
    """Not thread-safe, except `stop`."""

    def __init__(
        self,
        options: KafkaOptions,
        *,
        group: str,
        topics: Sequence[str] = TOPICS,
        on_revoke: Callable[[], None] | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        self._retry = retry or RetryPolicy(first_pause=0.05, longest_pause=2.0)
        self._stopping = threading.Event()
        self._lag_due = 0.0
        self._consumer = Consumer(
            {
                **options.common(),
                "group.id": group,
                # Stored offsets are committed in the background, and when partitions move or the consumer leaves.
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

    def run(self, process: Process, *, retry_on: tuple[type[Exception], ...]) -> None:
        """Process batches until `stop`.

        A batch that fails with an exception of `retry_on`, because an engine is away, is retried with backoff until
        it succeeds. One that fails otherwise is processed event by event, and the event that fails is skipped.
        """
        try:
            while not self._stopping.is_set():
                records = self.read(limit=MAX_RECORDS, timeout=READ_TIMEOUT)
                if records and self._process(records, process, retry_on):
                    self._store(records)
                self._measure_lag()
        finally:
            self.close()

    def stop(self) -> None:
        """Finish the batch under way, commit it, and leave the group. Safe in a signal handler."""
        self._stopping.set()

    def read(self, *, limit: int = 500, timeout: float = 1.0) -> list[Record]:
        """Up to `limit` records, as soon as there is one. Empty after `timeout`, also while no broker answers."""
        first = self._consumer.poll(timeout)
        if first is None:
            return []
        messages = [first, *self._consumer.consume(limit - 1, 0)] if limit > 1 else [first]
        return [record for message in messages if (record := _record(message)) is not None]

    def store_offsets(self, records: Sequence[Record]) -> None:
        """Mark everything up to these records as processed; committed within half a second.

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
        """Events between the position and the end of the partitions, as far as the brokers' last answers tell."""
        total = 0
        for place in self._consumer.position(self._consumer.assignment()):
            _, end = self._consumer.get_watermark_offsets(place, cached=True)
            total += max(0, end - place.offset) if place.offset >= 0 else 0
        return total

    def close(self) -> None:
        self._consumer.close()

    def _process(self, records: Sequence[Record], process: Process, retry_on: tuple[type[Exception], ...]) -> bool:
        """Process a batch; False when stopped before that: the batch will be read again."""
        attempt = 0
        while True:
            try:
                process(records)
                return True
            except retry_on as error:
                log.warning("%d events wait: %s", len(records), error)
            except Exception:
                log.exception("%d events failed", len(records))
                if len(records) > 1:
                    return all(self._process([record], process, retry_on) for record in records)
                EVENTS_SKIPPED.inc()
                log.warning("skipped %s[%d] at %d", records[0].topic, records[0].partition, records[0].offset)
                return True
            if self._stopping.wait(self._retry.pause(min(attempt, 10))):
                return False
            attempt += 1

    def _store(self, records: Sequence[Record]) -> None:
        """An offset that is not committed costs a repetition, which consumers tolerate."""
        try:
            self.store_offsets(records)
        except EventLogUnavailable as error:
            log.warning("offsets were not committed: %s", error.detail)

    def _measure_lag(self) -> None:
        now = time.monotonic()
        if now >= self._lag_due:
            self._lag_due = now + LAG_INTERVAL
            CONSUMER_LAG.set(self.lag())


def _record(message: Message) -> Record | None:
    """A record, or None for an error of the client library, which is logged."""
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
