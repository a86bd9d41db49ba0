"""Kafka: the log of what happened.

The producer is idempotent and waits for all in-sync replicas; `publish` returns only when every event of the batch is
in the log. The consumer commits what it was told is done, and nothing else.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from config.kernel.events import TOPICS, Event
from config.stores.errors import EventLogUnavailable
from config.stores.metrics import KAFKA_EVENTS, KAFKA_SECONDS

log = logging.getLogger(__name__)

REPLICATION = 3
SEVEN_DAYS_MS = 7 * 24 * 3600 * 1000
NEVER = 0
MAX_QUEUED_EVENTS = 20_000
MAX_QUEUED_KIB = 128 * 1024
COMMIT_INTERVAL_MS = 500

_DELIVERED = {topic: KAFKA_EVENTS.labels(topic, "delivered") for topic in TOPICS}


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """Where Kafka is and how patient to be. `extra` goes to librdkafka as it is (TLS, SASL)."""

    bootstrap_servers: str
    publish_timeout: float = 5.0
    fetch_wait_ms: int = 500
    session_timeout_ms: int = 10_000
    extra: dict[str, Any] = field(default_factory=dict)

    def common(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "socket.connection.setup.timeout.ms": 3000,
            "reconnect.backoff.max.ms": 2000,
            # A topic that a broker makes by itself would have its default of partitions and replicas, often one.
            "allow.auto.create.topics": False,
            "logger": logging.getLogger("kafka"),
            **self.extra,
        }


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An event on its way, with what travels beside it."""

    event: Event
    headers: tuple[tuple[str, bytes], ...] = ()


Refused = Callable[[Outgoing], None]
# Hears of each event of a batch once, by its place there: None when Kafka holds it, else why it does not.
Told = Callable[[int, EventLogUnavailable | None], None]


class EventProducer:
    """Puts events into the log. Thread-safe; events of one key keep the order in which they were handed over.

    An event that was handed over is tried until Kafka takes it, however long that is away: a deadline ends the
    caller's wait, not the attempt. So what waits is delivered once and in order when Kafka comes back. The queue is
    bounded: when it is full, events are refused.
    """

    def __init__(self, options: KafkaOptions) -> None:
        self.timeout = options.publish_timeout
        self._options = options
        self._pending: dict[_Batch, float] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._poller: threading.Thread | None = None

    @cached_property
    def _producer(self) -> Producer:
        """Made by `start` or the first event, so that a process that publishes nothing asks no broker for anything."""
        producer = Producer(
            {
                **self._options.common(),
                "enable.idempotence": True,
                "acks": "all",
                # What a transaction announces goes in one request, not in one for each message.
                "linger.ms": 0.5,
                "message.timeout.ms": NEVER,
                "queue.buffering.max.messages": MAX_QUEUED_EVENTS,
                "queue.buffering.max.kbytes": MAX_QUEUED_KIB,
            }
        )
        self._poller = threading.Thread(target=self._poll, args=[producer], name="kafka-reports", daemon=True)
        self._poller.start()
        return producer

    def start(self) -> None:
        """Greet the brokers now, so that the first event need not wait for that."""
        self._producer.poll(0)

    def publish(self, batch: Sequence[Outgoing], *, timeout: float | None = None) -> None:
        """Return when Kafka holds the whole batch. Raises `EventLogUnavailable` when it does not in time."""
        self.produce(batch, timeout=timeout).result()

    def produce(
        self, batch: Sequence[Outgoing], *, timeout: float | None = None, on_refused: Refused | None = None
    ) -> "Future[None]":
        """Hand the batch over without waiting.

        The future ends when Kafka holds the whole batch, or with `EventLogUnavailable` after the deadline or as soon
        as an event is refused for good.
        """
        gathering = Gathering(len(batch))
        self.hand_over(batch, gathering.told, timeout=timeout, on_refused=on_refused)
        return gathering.done

    def hand_over(
        self,
        batch: Sequence[Outgoing],
        told: Told,
        *,
        timeout: float | None = None,
        on_refused: Refused | None = None,
    ) -> None:
        """The same, event by event: `told` is called, on any thread, as soon as an event's fate is known.

        After the deadline that is `EventLogUnavailable`, though the event is still tried. `on_refused` gets each event
        that is refused for good: nobody tries it again.
        """
        if not batch:
            return
        handed = _Batch(batch, told, on_refused, on_done=self._forget)
        with self._lock:
            self._pending[handed] = time.monotonic() + (self.timeout if timeout is None else timeout)
        refused: set[str] = set()
        for place, outgoing in enumerate(batch):
            event = outgoing.event
            if event.partition_key in refused:
                handed.refuse(place, "behind a refused one")
                continue
            try:
                self._producer.produce(
                    event.topic,
                    value=event.encode(),
                    key=event.partition_key,
                    headers=list(outgoing.headers),
                    on_delivery=handed.reporter(place),
                )
            except BufferError:
                refused.add(event.partition_key)
                handed.refuse(place, "the queue is full")
            except KafkaException as error:
                refused.add(event.partition_key)
                handed.refuse(place, error.args[0].name())

    @property
    def queued(self) -> int:
        """How many events Kafka has not taken yet."""
        return 0 if self._poller is None else len(self._producer)

    def close(self, timeout: float = 5.0) -> int:
        """Wait for what is under way; return how many events were left undelivered."""
        if self._poller is None:
            return 0
        left = self._producer.flush(timeout)
        self._closing.set()
        self._poller.join(timeout=1.0)
        with self._lock:
            unanswered = list(self._pending)
        for batch in unanswered:
            batch.give_up("before this process ended")
        return int(left)

    def _poll(self, producer: Producer) -> None:
        """Serve delivery reports and deadlines; a report that makes its receiver fail must not end the others'."""
        while not self._closing.is_set():
            try:
                producer.poll(0.05)
                self._expire()
            except Exception:
                log.exception("serving Kafka's delivery reports failed")

    def _expire(self) -> None:
        now = time.monotonic()
        with self._lock:
            late = [batch for batch, deadline in self._pending.items() if deadline <= now]
        for batch in late:
            batch.give_up("in time")

    def _forget(self, batch: "_Batch") -> None:
        with self._lock:
            self._pending.pop(batch, None)


class Gathering:
    """Gathers what is told of a batch's events into one future, which ends once, whatever comes later."""

    def __init__(self, expected: int) -> None:
        self._lock = threading.Lock()
        self._waiting = expected
        self.done: Future[None] = Future()
        self.done.set_running_or_notify_cancel()
        if expected == 0:
            self.done.set_result(None)

    def told(self, place: int, error: EventLogUnavailable | None) -> None:
        with self._lock:
            over = self._waiting <= 0
            self._waiting = 0 if error is not None else self._waiting - 1
            is_last = self._waiting == 0
        if over:
            return
        if error is not None:
            self.done.set_exception(error)
        elif is_last:
            self.done.set_result(None)


class _Batch:
    """Events that were handed over together. Who takes one out of `_open` tells of it, so that nobody tells twice."""

    def __init__(
        self,
        batch: Sequence[Outgoing],
        told: Told,
        on_refused: Refused | None,
        *,
        on_done: "Callable[[_Batch], None]",
    ) -> None:
        self._batch = batch
        self._told = told
        self._on_refused = on_refused
        self._on_done = on_done
        self._open = set(range(len(batch)))
        self._started = time.perf_counter()

    def reporter(self, place: int) -> Callable[[KafkaError | None, Message], None]:
        def report(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.refuse(place, error.name())
            else:
                _DELIVERED[self._batch[place].event.topic].inc()
                self._tell(place, None)

        return report

    def refuse(self, place: int, reason: str) -> None:
        """Also after the deadline: an event that nobody tries again must not be forgotten."""
        outgoing = self._batch[place]
        KAFKA_EVENTS.labels(outgoing.event.topic, "refused").inc()
        if self._on_refused is not None:
            self._on_refused(outgoing)
        self._tell(place, EventLogUnavailable(f"Kafka did not take the event ({reason})"))

    def give_up(self, why: str) -> None:
        for place in sorted(self._open):
            self._tell(place, EventLogUnavailable(f"Kafka did not take the event {why}"))

    def _tell(self, place: int, error: EventLogUnavailable | None) -> None:
        try:
            self._open.remove(place)
        except KeyError:
            return
        if not self._open:
            self._on_done(self)
            KAFKA_SECONDS.observe(time.perf_counter() - self._started)
        self._told(place, error)


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


class EventLogAdmin:
    """Creates the topics and tells whether the brokers answer."""

    def __init__(self, options: KafkaOptions) -> None:
        self._client = AdminClient(options.common())

    def ping(self, timeout: float) -> None:
        """Raises `EventLogUnavailable` when no broker answers in time."""
        self._metadata(timeout)

    def require_topics(self, timeout: float) -> None:
        """Raises `EventLogUnavailable` when no broker answers in time, or a topic is missing."""
        if missing := self.missing_topics(timeout):
            raise EventLogUnavailable(f"No topic {', '.join(missing)}: the operator runs `manage.py create_topics`")

    def missing_topics(self, timeout: float) -> list[str]:
        return sorted(set(TOPICS) - set(self._metadata(timeout).topics))

    def create_topics(self, *, partitions: int, replication: int | None, timeout: float = 15.0) -> list[str]:
        """Create the topics that are missing, keeping events for seven days; return their names.

        Without a `replication` it is three, or as many as there are brokers: for a laptop, where one may be all.
        """
        missing = self.missing_topics(timeout)
        if not missing:
            return []
        replication = replication or min(REPLICATION, len(self._metadata(timeout).brokers))
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

    def _metadata(self, timeout: float) -> Any:
        try:
            return self._client.list_topics(timeout=timeout)
        except KafkaException as error:
            raise EventLogUnavailable("No Kafka broker answers") from error
