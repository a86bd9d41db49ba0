"""Kafka: the log of what happened.

The producer is idempotent and waits for all in-sync replicas; `publish` returns only when every event of the batch is
in the log. The consumer commits by hand, after the work is done.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from config.kernel.events import TOPICS, Event
from config.stores.errors import EventLogUnavailable
from config.stores.metrics import KAFKA_EVENTS, KAFKA_SECONDS

log = logging.getLogger(__name__)

SEVEN_DAYS_MS = 7 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """Where Kafka is and how patient to be. `extra` goes to librdkafka as it is (TLS, SASL)."""

    bootstrap_servers: str
    publish_timeout: float = 5.0
    fetch_wait_ms: int = 500
    extra: dict[str, Any] = field(default_factory=dict)

    def common(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "socket.connection.setup.timeout.ms": 3000,
            "reconnect.backoff.max.ms": 2000,
            "logger": logging.getLogger("kafka"),
            **self.extra,
        }


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An event on its way, with what travels beside it."""

    event: Event
    headers: tuple[tuple[str, bytes], ...] = ()


class EventProducer:
    """Puts events into the log. Thread-safe; events of one key keep the order in which they were handed over."""

    def __init__(self, options: KafkaOptions) -> None:
        self.timeout = options.publish_timeout
        self._producer = Producer(
            {
                **options.common(),
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                "delivery.timeout.ms": int(options.publish_timeout * 1000),
                "queue.buffering.max.messages": 20_000,
            }
        )
        self._closing = threading.Event()
        self._poller = threading.Thread(target=self._poll, name="kafka-delivery-reports", daemon=True)
        self._poller.start()

    def publish(self, batch: Sequence[Outgoing], *, timeout: float | None = None) -> None:
        """Return when Kafka holds the whole batch. Raises `EventLogUnavailable` when it does not in time."""
        started = time.perf_counter()
        try:
            self.produce(batch).result(self.timeout if timeout is None else timeout)
        except FutureTimeout as error:
            raise EventLogUnavailable("Kafka did not take the events in time") from error
        finally:
            KAFKA_SECONDS.observe(time.perf_counter() - started)

    def produce(self, batch: Sequence[Outgoing]) -> "Future[None]":
        """Hand the batch over; the future ends with the last delivery report, or with `EventLogUnavailable`."""
        reports = _Reports(len(batch))
        for outgoing in batch:
            event = outgoing.event
            try:
                self._producer.produce(
                    event.topic,
                    value=event.encode(),
                    key=event.partition_key,
                    headers=list(outgoing.headers),
                    on_delivery=reports.receive,
                )
            except (BufferError, KafkaException) as error:
                reports.refuse(event.topic, error)
        return reports.done

    def close(self, timeout: float = 5.0) -> int:
        """Wait for what is under way; return how many events were left undelivered."""
        left = self._producer.flush(timeout)
        self._closing.set()
        self._poller.join(timeout=1.0)
        return int(left)

    def _poll(self) -> None:
        while not self._closing.is_set():
            self._producer.poll(0.1)


class _Reports:
    """Collects the delivery reports of one batch into one future."""

    def __init__(self, expected: int) -> None:
        self._lock = threading.Lock()
        self._waiting = expected
        self._failure: str | None = None
        self.done: Future[None] = Future()
        if expected == 0:
            self.done.set_result(None)

    def receive(self, error: KafkaError | None, message: Message) -> None:
        KAFKA_EVENTS.labels(message.topic(), "failed" if error else "delivered").inc()
        self._count(error.name() if error else None)

    def refuse(self, topic: str, error: Exception) -> None:
        KAFKA_EVENTS.labels(topic, "refused").inc()
        self._count(type(error).__name__)

    def _count(self, failure: str | None) -> None:
        with self._lock:
            self._waiting -= 1
            self._failure = self._failure or failure
            if self._waiting:
                return
        if self._failure:
            self.done.set_exception(EventLogUnavailable(f"Kafka did not take the events ({self._failure})"))
        else:
            self.done.set_result(None)


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
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": options.fetch_wait_ms,
                "topic.metadata.refresh.interval.ms": 10_000,
                "allow.auto.create.topics": True,
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

    def commit(self, records: Sequence[Record]) -> None:
        """Remember that everything up to these records is done. Raises `EventLogUnavailable`."""
        highest: dict[tuple[str, int], int] = {}
        for record in records:
            place = (record.topic, record.partition)
            highest[place] = max(highest.get(place, -1), record.offset)
        offsets = [TopicPartition(topic, partition, offset + 1) for (topic, partition), offset in highest.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            raise EventLogUnavailable("Kafka did not take the commit") from error

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


class EventLogAdmin:
    """Creates the topics and tells whether the brokers answer."""

    def __init__(self, options: KafkaOptions) -> None:
        self._client = AdminClient(options.common())

    def ping(self, timeout: float) -> None:
        """Raises `EventLogUnavailable` when no broker answers in time."""
        self._metadata(timeout)

    def missing_topics(self, timeout: float) -> list[str]:
        return sorted(set(TOPICS) - self._metadata(timeout))

    def create_topics(self, *, partitions: int, replication: int, timeout: float = 15.0) -> list[str]:
        """Create the topics that are missing, keeping events for seven days; return their names."""
        missing = self.missing_topics(timeout)
        if not missing:
            return []
        configuration = {"retention.ms": str(SEVEN_DAYS_MS), "cleanup.policy": "delete"}
        if replication > 1:
            configuration["min.insync.replicas"] = str(replication - 1)
        wanted = [NewTopic(name, partitions, replication, config=configuration) for name in missing]
        for name, future in self._client.create_topics(wanted, request_timeout=timeout).items():
            try:
                future.result(timeout)
            except (KafkaException, FutureTimeout) as error:
                raise EventLogUnavailable(f"Kafka did not create {name}: {error}") from error
        return missing

    def _metadata(self, timeout: float) -> set[str]:
        try:
            return set(self._client.list_topics(timeout=timeout).topics)
        except KafkaException as error:
            raise EventLogUnavailable("No Kafka broker answers") from error
