"""Consumes events as a member of a group: read, process, commit.

Events of all partitions are processed together, in one batch. When that fails, each partition of the batch is paused
and its events are retried alone, with backoff, until they succeed; the other partitions go on. Nothing is skipped
here: an event that fails for ever stops its partition, and metrics, `require_progress` and the log tell so.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from foundation.kernel.errors import Unavailable
from foundation.kernel.events import TOPICS
from foundation.kernel.retry import RetryPolicy
from foundation.stores.errors import EventLogUnavailable, StoreUnavailable
from foundation.stores.kafka.options import KafkaOptions
from foundation.stores.metrics import CONSUMER_LAG, FANOUT_RETRIES, FANOUT_STALLED

log = logging.getLogger(__name__)

COMMIT_INTERVAL_MS = 500
MAX_RECORDS = 500
READ_TIMEOUT = 0.5
LAG_INTERVAL = 1.0
LOG_INTERVAL = 30.0
MAX_IDLE_SECONDS = 60.0

Process = Callable[[Sequence["Record"]], None]
Partition = tuple[str, int]
"""A topic and a partition of it."""


@dataclass(frozen=True, slots=True)
class Record:
    """An event with its place in the log."""

    topic: str
    partition: int
    offset: int
    key: str
    value: bytes
    headers: dict[str, bytes]


@dataclass(slots=True)
class WaitingBatch:
    """Events of a paused partition that have failed. `due` is the time of the next attempt.

    After an unexpected error the events are processed one at a time, so that those before the one that fails pass.
    """

    records: list[Record]
    due: float = 0.0
    attempts: int = 0
    one_by_one: bool = False
    error: str = ""
    log_due: float = 0.0

    def __str__(self) -> str:
        first = self.records[0]
        return f"{first.topic}[{first.partition}] waits at {first.offset}: {self.error}"


class EventConsumer:
    """Not thread-safe, except `stop` and `require_progress`."""

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
        self._waiting: dict[Partition, WaitingBatch] = {}
        self._on_revoke = on_revoke
        self._turned_at = time.monotonic()
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
        self._consumer.subscribe(list(topics), on_revoke=lambda _, partitions: self._forget(partitions))

    def run(self, process: Process) -> None:
        """Process batches until `stop`. Between two reads, retry the batch that has waited longest for its turn."""
        try:
            while not self._stopping.is_set():
                self._turned_at = time.monotonic()
                records = self.read(limit=MAX_RECORDS, timeout=self._seconds_to_next_retry())
                if records:
                    self._process(records, process)
                self._retry_one(process)
                self._measure()
        finally:
            self.close()

    def stop(self) -> None:
        """Finish the batch under way, commit it, and leave the group. Safe in a signal handler."""
        self._stopping.set()

    def require_progress(self) -> None:
        """Raises `StoreUnavailable` while a partition waits for a retry, or when `run` makes no progress at all."""
        if stalled := self._stalled():
            raise StoreUnavailable("; ".join(map(str, stalled)))
        if (idle := time.monotonic() - self._turned_at) > MAX_IDLE_SECONDS:
            raise StoreUnavailable(f"Events have been under way for {idle:.0f} s")

    def read(self, *, limit: int = 500, timeout: float = 1.0) -> list[Record]:
        """Up to `limit` records, as soon as there is one. Empty after `timeout`, also while no broker answers."""
        first = self._consumer.poll(timeout)
        if first is None:
            return []
        messages = [first, *self._consumer.consume(limit - 1, 0)] if limit > 1 else [first]
        return [record for message in messages if (record := record_of(message)) is not None]

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
        """Events not processed yet: those that wait for a retry, and those up to the end of the partitions.

        Knows the end from the brokers' last answers.
        """
        total = sum(len(waiting.records) for waiting in self._waiting.values())
        for place in self._consumer.position(self._consumer.assignment()):
            _, end = self._consumer.get_watermark_offsets(place, cached=True)
            total += max(0, end - place.offset) if place.offset >= 0 else 0
        return total

    def close(self) -> None:
        self._consumer.close()

    def _process(self, records: Sequence[Record], process: Process) -> None:
        """Process a batch, or pause its partitions and have each retried alone."""
        try:
            process(records)
        except Exception as error:  # noqa: BLE001 - logged when a partition fails alone
            FANOUT_RETRIES.labels(_reason(error)).inc()
            assigned = {(each.topic, each.partition) for each in self._consumer.assignment()}
            for place, batch in _by_partition(records).items():
                if place in assigned:
                    self._waiting[place] = WaitingBatch(batch)
                    self._consumer.pause([TopicPartition(*place)])
        else:
            self._store(records)

    def _seconds_to_next_retry(self) -> float:
        if not self._waiting:
            return READ_TIMEOUT
        due = min(waiting.due for waiting in self._waiting.values())
        return max(0.0, min(READ_TIMEOUT, due - time.monotonic()))

    def _retry_one(self, process: Process) -> None:
        """One at a time: while an engine does not answer, each attempt may take seconds."""
        if not self._waiting:
            return
        place, waiting = min(self._waiting.items(), key=lambda item: item[1].due)
        if waiting.due > time.monotonic():
            return
        records = waiting.records[:1] if waiting.one_by_one else waiting.records
        try:
            process(records)
        except Exception as error:  # noqa: BLE001 - retried, whatever it is
            self._postpone(waiting, error)
            return
        self._store(records)
        left = waiting.records[len(records) :]
        if left:
            self._waiting[place] = WaitingBatch(left, one_by_one=True)
        else:
            del self._waiting[place]
            self._consumer.resume([TopicPartition(*place)])

    def _postpone(self, waiting: WaitingBatch, error: Exception) -> None:
        """Back off. After an unexpected error of several events, try one at a time at once, to find the one."""
        FANOUT_RETRIES.labels(_reason(error)).inc()
        waiting.error = f"{type(error).__name__}: {error}"
        now = time.monotonic()
        is_unexpected = not isinstance(error, Unavailable)
        if is_unexpected and len(waiting.records) > 1 and not waiting.one_by_one:
            waiting.one_by_one = True
            return
        if now >= waiting.log_due:
            waiting.log_due = now + LOG_INTERVAL
            log.log(
                logging.ERROR if is_unexpected else logging.WARNING, "%s", waiting, exc_info=is_unexpected and error
            )
        waiting.attempts += 1
        waiting.due = now + self._retry.pause(min(waiting.attempts - 1, 10))

    def _stalled(self) -> list[WaitingBatch]:
        return [waiting for waiting in tuple(self._waiting.values()) if waiting.attempts]

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        """Partitions move: their next owner reads the waiting events again."""
        for partition in partitions:
            if self._waiting.pop((partition.topic, partition.partition), None) is not None:
                with suppress(KafkaException):  # the partition was lost already
                    self._consumer.resume([partition])
        if self._on_revoke is not None:
            self._on_revoke()

    def _store(self, records: Sequence[Record]) -> None:
        """An offset that is not committed costs a repetition, which consumers tolerate."""
        try:
            self.store_offsets(records)
        except EventLogUnavailable as error:
            log.warning("offsets were not committed: %s", error.detail)

    def _measure(self) -> None:
        FANOUT_STALLED.set(len(self._stalled()))
        now = time.monotonic()
        if now >= self._lag_due:
            self._lag_due = now + LAG_INTERVAL
            CONSUMER_LAG.set(self.lag())


def _by_partition(records: Sequence[Record]) -> dict[Partition, list[Record]]:
    batches: dict[Partition, list[Record]] = {}
    for record in records:
        batches.setdefault((record.topic, record.partition), []).append(record)
    return batches


def _reason(error: Exception) -> str:
    return "unavailable" if isinstance(error, Unavailable) else "unexpected"


def record_of(message: Message) -> Record | None:
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
