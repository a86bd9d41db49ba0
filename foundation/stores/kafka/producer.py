"""Publishes events: each key's events in the order of the calls, each event sooner or later.

librdkafka retries an event until Kafka takes it; a deadline ends the caller's wait, not the attempt. Events that are
refused for good, because librdkafka's queue is full or Kafka rejects them, wait in a backlog, and later events of
their key wait behind them. Queue and backlog are bounded and in memory; DynamoDB still holds what a crash loses.

librdkafka's producer may fail for good ("fatal error"): it then refuses every event for ever. It is replaced by a new
one, which publishes what the failed one had not; an event whose outcome is unknown is published again.
"""

import itertools
import logging
import threading
import time
from bisect import insort
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property, partial
from operator import itemgetter

import prometheus_client
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from foundation.kernel.events import TOPICS, Event
from foundation.kernel.retry import RetryPolicy
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka.options import KafkaOptions
from foundation.stores.metrics import KAFKA_EVENTS, KAFKA_SECONDS

log = logging.getLogger(__name__)

BACKLOG = prometheus_client.Gauge("parley_kafka_backlog_events", "Events that Kafka has not taken yet.")
DROPPED = prometheus_client.Counter("parley_kafka_dropped_events_total", "Events dropped because the backlog was full.")
REPLACED = prometheus_client.Counter(
    "parley_kafka_producers_replaced_total", "Producers that had failed for good and were replaced."
)
MAX_QUEUED_EVENTS = 20_000
MAX_QUEUED_KIB = 128 * 1024
MAX_BACKLOG = 10_000
POLL_SECONDS = 0.05
NO_MESSAGE_TIMEOUT = 0
LAST_REPORTS_SECONDS = 5.0
PURGE_SECONDS = 1.0
REPLACE_INTERVAL_SECONDS = 5.0

# A producer that has failed for good refuses new events and purges those in its queue.
_FATAL_CODES = (KafkaError._FATAL, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)

_delivered = {topic: KAFKA_EVENTS.labels(topic, "delivered") for topic in TOPICS}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An event with its headers."""

    event: Event
    headers: tuple[tuple[str, bytes], ...] = ()


OnDelivered = Callable[[Sequence[int], EventLogUnavailable | None], None]
"""Gets positions in the batch: with None when Kafka has taken these events, else with the reason why not."""


class InFlightBatch:
    """Events that were published together and not all reported yet. Each event is reported once.

    `number` grows with each batch: the order of publication.
    """

    def __init__(self, number: int, batch: Sequence[Outgoing], on_delivered: OnDelivered, deadline: float) -> None:
        self.number = number
        self.batch = batch
        self.deadline = deadline
        self._on_delivered = on_delivered
        self._open = set(range(len(batch)))
        self._started = time.perf_counter()

    @property
    def is_done(self) -> bool:
        return not self._open

    def deliver(self, positions: Sequence[int]) -> None:
        for topic, count in Counter(self.batch[position].event.topic for position in positions).items():
            _delivered[topic].inc(count)
        self._report(positions, None)

    def refuse(self, position: int, reason: str) -> None:
        KAFKA_EVENTS.labels(self.batch[position].event.topic, "refused").inc()
        self._report([position], EventLogUnavailable(f"Kafka did not take the event ({reason})"))

    def expire(self, reason: str) -> None:
        self._report(sorted(self._open), EventLogUnavailable(f"Kafka did not take the event {reason}"))

    def _report(self, positions: Sequence[int], error: EventLogUnavailable | None) -> None:
        unreported = [position for position in positions if position in self._open]
        if not unreported:
            return
        self._open.difference_update(unreported)
        if self.is_done:
            KAFKA_SECONDS.observe(time.perf_counter() - self._started)
        self._on_delivered(unreported, error)


class EventProducer:
    """One per process. Thread-safe. Connects at `start` or with the first event."""

    def __init__(
        self, options: KafkaOptions, *, retry: RetryPolicy | None = None, max_backlog: int = MAX_BACKLOG
    ) -> None:
        self._options = options
        self._retry = retry or RetryPolicy(first_pause=0.2, longest_pause=5.0)
        self._max_backlog = max_backlog
        # Held while events are handed to librdkafka, so that none overtakes another of its key.
        self._lock = threading.RLock()
        self._in_flight: set[InFlightBatch] = set()
        self._reported: deque[tuple[InFlightBatch, int]] = deque()
        # By key, in the order of publication: reports of failures may come in another.
        self._backlog: OrderedDict[str, list[tuple[int, int, Outgoing]]] = OrderedDict()
        self._backlog_size = 0
        self._backlog_attempts = 0
        self._backlog_due = 0.0
        self._numbers = itertools.count()
        self._fatal_error: KafkaError | None = None
        self._failed_at: float | None = None
        self._replace_due = 0.0
        self._closing = threading.Event()
        self._poller: threading.Thread | None = None
        BACKLOG.set_function(lambda: self.queued)

    @cached_property
    def _producer(self) -> Producer:
        producer = self._connect()
        self._poller = threading.Thread(target=self._poll, args=[producer], name="kafka-reports", daemon=True)
        self._poller.start()
        return producer

    def _connect(self) -> Producer:
        return Producer(
            {
                **self._options.common(),
                "enable.idempotence": True,
                "acks": "all",
                # The events of one transaction travel in one request.
                "linger.ms": 0.5,
                "message.timeout.ms": NO_MESSAGE_TIMEOUT,
                "queue.buffering.max.messages": MAX_QUEUED_EVENTS,
                "queue.buffering.max.kbytes": MAX_QUEUED_KIB,
            }
        )

    def start(self) -> None:
        """Connect to the brokers now, so that the first event need not wait for that."""
        self._producer.poll(0)

    def publish(self, batch: Sequence[Outgoing], *, on_delivered: OnDelivered, timeout: float | None = None) -> None:
        """Hand a batch over without waiting. `on_delivered` is called on the producer's thread, or at once.

        After the deadline it gets `EventLogUnavailable`, though the events are still tried. So it does, at once, for
        events behind refused ones of their key.
        """
        timeout = self._options.publish_timeout if timeout is None else timeout
        with self._lock:
            in_flight = InFlightBatch(next(self._numbers), batch, on_delivered, time.monotonic() + timeout)
            if self._closing.is_set():
                in_flight.expire("because this process is shutting down")
                return
            self._in_flight.add(in_flight)
            for position, outgoing in enumerate(batch):
                reason = self._produce(in_flight, position, outgoing.event, outgoing.headers)
                if reason is not None:
                    self._keep(in_flight, position)
                    in_flight.refuse(position, reason)
            self._forget_if_done(in_flight)

    def publish_and_wait(self, batch: Sequence[Outgoing], *, timeout: float | None = None) -> None:
        """Return when Kafka has taken the whole batch.

        Raises `EventLogUnavailable` when it has not in time; the events are then published in the background.
        """
        done: Future[None] = Future()
        missing = len(batch)

        def on_delivered(positions: Sequence[int], error: EventLogUnavailable | None) -> None:
            nonlocal missing
            missing -= len(positions)
            if error is not None and not done.done():
                done.set_exception(error)
            elif missing == 0 and not done.done():
                done.set_result(None)

        if batch:
            self.publish(batch, on_delivered=on_delivered, timeout=timeout)
            done.result()

    @property
    def queued(self) -> int:
        """How many events Kafka has not taken yet."""
        waiting = 0 if self._poller is None else len(self._producer)
        return waiting + self._backlog_size

    def close(self, timeout: float = 5.0) -> int:
        """Wait for the events in flight; return how many were left unpublished."""
        if self._poller is None:
            return self._backlog_size
        with self._lock:
            if self._backlog:
                self._publish_backlog()
        left = _flush(self._producer, timeout)
        with self._lock:
            self._closing.set()
        self._poller.join(timeout=1.0)
        self._report_delivered()
        with self._lock:
            unanswered = list(self._in_flight)
        for in_flight in unanswered:
            in_flight.expire("before this process ended")
        return left + self._backlog_size

    def _produce(
        self, in_flight: InFlightBatch, position: int, event: Event, headers: tuple[tuple[str, bytes], ...]
    ) -> str | None:
        """Hand one event to librdkafka; return why it was refused, if it was."""
        if event.partition_key in self._backlog:
            return "behind a refused one of this chat"
        if self._fatal_error is not None:
            return "the producer is being replaced"
        try:
            self._producer.produce(
                event.topic,
                value=event.encode(),
                key=event.partition_key,
                headers=list(headers),
                on_delivery=partial(self._on_report, in_flight, position),
            )
        except BufferError:
            return "the queue is full"
        except KafkaException as error:
            self._note_fatal(error.args[0])
            return str(error.args[0].name())
        return None

    def _on_report(self, in_flight: InFlightBatch, position: int, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._reported.append((in_flight, position))
            return
        self._note_fatal(error)
        self._keep(in_flight, position)
        in_flight.refuse(position, error.name())

    def _note_fatal(self, error: KafkaError) -> None:
        if error.fatal() or error.code() in _FATAL_CODES:
            self._fatal_error = self._fatal_error or error

    # On the producer's thread

    def _poll(self, producer: Producer) -> None:
        """Serve delivery reports, deadlines and the backlog."""
        while not self._closing.is_set():
            try:
                self._serve(producer)
                if self._fatal_error is not None:
                    producer = self._replaced(producer, self._fatal_error)
                elif self._backlog and time.monotonic() >= self._backlog_due:
                    with self._lock:
                        if not self._closing.is_set():
                            self._publish_backlog()
            except Exception:
                log.exception("serving Kafka's delivery reports failed")

    def _serve(self, producer: Producer) -> None:
        try:
            producer.poll(POLL_SECONDS)
        except KafkaException as error:  # how the client library tells of a fatal error
            self._note_fatal(error.args[0])
            if self._fatal_error is None:
                raise
        self._report_delivered()
        self._expire()

    def _replaced(self, failed: Producer, error: KafkaError) -> Producer:
        """A new producer for one that has failed for good; the same while its last reports, or the backoff, are due.

        Meanwhile events go to the backlog, behind those that it did not publish.
        """
        now = time.monotonic()
        if self._failed_at is None:
            self._failed_at = now
            log.error("the Kafka producer has failed for good: %s", error)
        if now < self._replace_due or (len(failed) and now < self._failed_at + LAST_REPORTS_SECONDS):
            return failed
        failed.purge(in_queue=True, in_flight=True)
        _flush(failed, PURGE_SECONDS)
        with self._lock:
            self._producer = new = self._connect()
            self._fatal_error, self._failed_at = None, None
            self._replace_due = now + REPLACE_INTERVAL_SECONDS
            self._backlog_due = now
        REPLACED.inc()
        log.warning("the Kafka producer was replaced, %d events are published again", self._backlog_size)
        return new

    def _report_delivered(self) -> None:
        """Report batch by batch: events that were published together are mostly taken together."""
        by_batch: dict[InFlightBatch, list[int]] = {}
        while self._reported:
            in_flight, position = self._reported.popleft()
            by_batch.setdefault(in_flight, []).append(position)
        for in_flight, positions in by_batch.items():
            try:
                in_flight.deliver(positions)
            except Exception:
                log.exception("on_delivered failed for events that Kafka has taken")
            self._forget_if_done(in_flight)

    def _expire(self) -> None:
        now = time.monotonic()
        with self._lock:
            late = [in_flight for in_flight in self._in_flight if in_flight.deadline <= now]
        for in_flight in late:
            in_flight.expire("in time")
            self._forget_if_done(in_flight)

    def _forget_if_done(self, in_flight: InFlightBatch) -> None:
        if in_flight.is_done:
            with self._lock:
                self._in_flight.discard(in_flight)

    def _keep(self, in_flight: InFlightBatch, position: int) -> None:
        """Put a refused event into the backlog, unless that is full. It has room for all of a failed producer."""
        outgoing = in_flight.batch[position]
        with self._lock:
            limit = self._max_backlog + (MAX_QUEUED_EVENTS if self._fatal_error is not None else 0)
            if self._backlog_size >= limit:
                DROPPED.inc()
                log.error("the backlog is full: an event is dropped, clients find its message by syncing")
                return
            if not self._backlog:
                self._backlog_due = time.monotonic() + self._retry.pause(min(self._backlog_attempts, 10))
            self._backlog_size += 1
            insort(
                self._backlog.setdefault(outgoing.event.partition_key, []),
                (in_flight.number, position, outgoing),
                key=itemgetter(0, 1),
            )

    def _publish_backlog(self) -> None:
        """Publish the backlog key by key, until an event is refused again."""
        if self._closing.is_set():
            return
        published = 0
        for key in list(self._backlog):
            events = [outgoing for _, _, outgoing in self._backlog.pop(key)]
            self._backlog_size -= len(events)
            self.publish(events, on_delivered=_ignore)
            if key in self._backlog:
                self._backlog_attempts += 1
                self._backlog_due = time.monotonic() + self._retry.pause(min(self._backlog_attempts, 10))
                break
            published += len(events)
        else:
            self._backlog_attempts = 0
        log.info("published %d events of the backlog, %d are left", published, self._backlog_size)


def _flush(producer: Producer, timeout: float) -> int:
    """Serve reports until there are none to come; return how many are missing."""
    try:
        return int(producer.flush(timeout))
    except KafkaException as error:  # a fatal error
        log.warning("the Kafka producer could not be flushed: %s", error)
        return len(producer)


def _ignore(positions: Sequence[int], error: EventLogUnavailable | None) -> None:
    """Waiters for events of the backlog have been answered already."""
