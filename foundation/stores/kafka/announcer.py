"""Gets events into the log, sooner or later, each key's events in the order given.

While Kafka is away, events wait in the producer's queue, which delivers them in order when it comes back. What the
producer refuses for good, because that queue is full or Kafka rejects the event, waits here in its key's lane, and
whatever that key announces later queues up behind it. Both are bounded and in memory; what a crash takes from them is
still in DynamoDB, where gap filling and `manage.py reconcile` find it.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future

from prometheus_client import Counter, Gauge

from foundation.kernel.retry import RetryPolicy
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka import EventProducer, Gathering, Outgoing, Told

log = logging.getLogger(__name__)

BACKLOG = Gauge("parley_announcer_backlog_events", "Events that Kafka has not taken yet.")
DROPPED = Counter("parley_announcer_dropped_events_total", "Events given up because the backlog was full.")
MAX_BACKLOG = 10_000


class Announcer:
    """Publishes for a whole process. Thread-safe."""

    def __init__(
        self, producer: EventProducer, *, retry: RetryPolicy | None = None, max_backlog: int = MAX_BACKLOG
    ) -> None:
        self._producer = producer
        self._retry = retry or RetryPolicy(first_pause=0.2, longest_pause=5.0)
        self._max_backlog = max_backlog
        self._lanes: OrderedDict[str, list[Outgoing]] = OrderedDict()
        self._kept = 0
        # Held while events are handed over, so that none overtakes another of its key; re-entered by refusals.
        self._changed = threading.Condition(threading.RLock())
        self._closing = False
        self._worker: threading.Thread | None = None
        BACKLOG.set_function(lambda: self._kept + self._producer.queued)

    def announce(self, batch: Sequence[Outgoing], *, timeout: float | None = None) -> None:
        """Return when Kafka holds the batch.

        Raises `EventLogUnavailable` when it does not in time; the events are then published in the background.
        """
        self.announcing(batch, timeout=timeout).result()

    def announcing(self, batch: Sequence[Outgoing], *, timeout: float | None = None) -> "Future[None]":
        """The same without waiting."""
        gathering = Gathering(len(batch))
        self.hand_over(batch, gathering.told, timeout=timeout)
        return gathering.done

    def hand_over(self, batch: Sequence[Outgoing], told: Told, *, timeout: float | None = None) -> None:
        """The same, event by event. Events are in Kafka in the order of these calls, key by key.

        A key whose earlier events were refused fails at once: its events are kept behind those.
        """
        with self._changed:
            if not self._lanes:
                self._producer.hand_over(batch, told, timeout=timeout, on_refused=self._keep)
                return
            behind = [place for place, outgoing in enumerate(batch) if outgoing.event.partition_key in self._lanes]
            for place in behind:
                self._keep(batch[place])
            places = [place for place in range(len(batch)) if place not in behind]
            self._producer.hand_over(
                [batch[place] for place in places],
                lambda taken, error: told([places[place] for place in taken], error),
                timeout=timeout,
                on_refused=self._keep,
            )
        if behind:
            told(behind, EventLogUnavailable("Earlier events of this chat still wait for Kafka"))

    def close(self, timeout: float = 5.0) -> int:
        """Hand the backlog over once more, then stop; return how many events were left."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._worker is not None:
            self._worker.join(timeout)
        return self._kept

    def _keep(self, outgoing: Outgoing) -> None:
        """Hold a refused event for another try, unless too many are held already."""
        with self._changed:
            if self._kept >= self._max_backlog:
                DROPPED.inc()
                log.error("the backlog is full: an event is left to reconcile")
                return
            self._lanes.setdefault(outgoing.event.partition_key, []).append(outgoing)
            self._kept += 1
            if self._worker is None and not self._closing:
                self._worker = threading.Thread(target=self._work, name="announcer", daemon=True)
                self._worker.start()
            self._changed.notify_all()

    def _work(self) -> None:
        attempt = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._lanes)
                self._changed.wait_for(lambda: self._closing, self._retry.pause(min(attempt, 10)))
                closing = self._closing
            attempt = attempt + 1 if self._hand_over() else 0
            if closing:
                return

    def _hand_over(self) -> int:
        """Give the kept events to the producer again, until it refuses some on the spot; return how many."""
        handed = refused = 0
        with self._changed:
            keys = list(self._lanes)
        for key in keys:
            # One key at a time: who announces meanwhile, perhaps an event loop, does not wait long.
            with self._changed:
                lane = self._lanes.pop(key)
                self._kept -= len(lane)
                before = self._kept
                self._producer.hand_over(lane, _nobody, on_refused=self._keep)
                refused = self._kept - before
            handed += len(lane)
            if refused:
                break
        if handed:
            log.info("handed %d kept events to Kafka again, %d were refused", handed, refused)
        return refused


def _nobody(places: Sequence[int], error: EventLogUnavailable | None) -> None:
    """Whoever waited for a kept event has been told already."""
