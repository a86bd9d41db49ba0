"""Into the log: events of one key in the order in which they were handed over."""

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from functools import cached_property, partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from foundation.stores.kafka.handing import Gathering, Handed, Outgoing, Refused, Told
from foundation.stores.kafka.options import KafkaOptions

log = logging.getLogger(__name__)

NEVER = 0
MAX_QUEUED_EVENTS = 20_000
MAX_QUEUED_KIB = 128 * 1024


class EventProducer:
    """Puts events into the log. Thread-safe; events of one key keep the order in which they were handed over.

    An event that was handed over is tried until Kafka takes it, however long that is away: a deadline ends the
    caller's wait, not the attempt. So what waits is delivered once and in order when Kafka comes back. The queue is
    bounded: when it is full, events are refused.
    """

    def __init__(self, options: KafkaOptions) -> None:
        self.timeout = options.publish_timeout
        self._options = options
        self._pending: dict[Handed, float] = {}
        self._lock = threading.Lock()
        self._taken: deque[tuple[Handed, int]] = deque()
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
        handed = Handed(batch, told, on_refused, on_done=self._forget)
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
                    on_delivery=partial(self._report, handed, place),
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
        self._tell_taken()
        with self._lock:
            unanswered = list(self._pending)
        for batch in unanswered:
            batch.give_up("before this process ended")
        return int(left)

    def _poll(self, producer: Producer) -> None:
        """Serve delivery reports and deadlines."""
        while not self._closing.is_set():
            try:
                producer.poll(0.05)
                self._tell_taken()
                self._expire()
            except Exception:
                log.exception("serving Kafka's delivery reports failed")

    def _report(self, handed: Handed, place: int, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._taken.append((handed, place))
        else:
            handed.refuse(place, error.name())

    def _tell_taken(self) -> None:
        """Batch by batch: what was handed over together is mostly taken together, and answered at one go."""
        by_batch: dict[Handed, list[int]] = {}
        for handed, place in iter(self._next_taken, None):
            by_batch.setdefault(handed, []).append(place)
        for handed, places in by_batch.items():
            try:
                handed.take(places)
            except Exception:
                log.exception("a batch is in Kafka, and who was told of it failed")

    def _next_taken(self) -> tuple[Handed, int] | None:
        try:
            return self._taken.popleft()
        except IndexError:
            return None

    def _expire(self) -> None:
        now = time.monotonic()
        with self._lock:
            late = [batch for batch, deadline in self._pending.items() if deadline <= now]
        for batch in late:
            batch.give_up("in time")

    def _forget(self, batch: Handed) -> None:
        with self._lock:
            self._pending.pop(batch, None)
