"""Gets events into the log, sooner or later, each key's events in the order given.

An event that Kafka does not take in time is the caller's to know about and ours to keep trying: it waits in its key's
lane, and whatever that key announces later queues up behind it. The lanes are bounded and in memory; what a crash takes
from them is still in DynamoDB, where gap filling and `manage.py reconcile` find it.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence

from prometheus_client import Counter, Gauge

from config.kernel.errors import Unavailable
from config.kernel.retry import RetryPolicy
from config.stores.errors import EventLogUnavailable
from config.stores.kafka import EventProducer, Outgoing

log = logging.getLogger(__name__)

BACKLOG = Gauge("parley_announcer_backlog_events", "Events waiting for Kafka to come back.")
DROPPED = Counter("parley_announcer_dropped_events_total", "Events given up because the backlog was full.")
MAX_BACKLOG = 10_000
ROUND_EVENTS = 500


class Announcer:
    """Publishes for a whole process. Thread-safe."""

    def __init__(self, producer: EventProducer, *, retry: RetryPolicy | None = None) -> None:
        self._producer = producer
        self._retry = retry or RetryPolicy(first_pause=0.2, longest_pause=5.0)
        self._lanes: OrderedDict[str, list[Outgoing]] = OrderedDict()
        self._waiting = 0
        self._changed = threading.Condition()
        self._closing = False
        self._worker: threading.Thread | None = None

    def announce(self, batch: Sequence[Outgoing], *, timeout: float | None = None) -> None:
        """Return when Kafka holds the batch.

        Raises `EventLogUnavailable` when it does not in time; the events are then kept and published in the background.
        """
        blocked = self._join_lanes(batch)
        direct = [outgoing for outgoing in batch if outgoing.event.partition_key not in blocked]
        try:
            self._producer.publish(direct, timeout=timeout)
        except EventLogUnavailable:
            self._keep(direct)
            raise
        if blocked and not self._wait_for_lanes(blocked, timeout=timeout):
            raise EventLogUnavailable("Kafka did not take the events in time")

    def close(self, timeout: float = 5.0) -> int:
        """Try the backlog once more, then stop; return how many events were left."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._worker is not None:
            self._worker.join(timeout)
        return self._waiting

    def _join_lanes(self, batch: Sequence[Outgoing]) -> set[str]:
        """Queue up behind what a key is still waiting for; return those keys."""
        with self._changed:
            blocked = {outgoing.event.partition_key for outgoing in batch} & self._lanes.keys()
            self._add([outgoing for outgoing in batch if outgoing.event.partition_key in blocked])
            return blocked

    def _keep(self, batch: Sequence[Outgoing]) -> None:
        with self._changed:
            self._add(batch)
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="announcer", daemon=True)
                self._worker.start()
            self._changed.notify_all()

    def _add(self, batch: Sequence[Outgoing]) -> None:
        room = MAX_BACKLOG - self._waiting
        if len(batch) > room:
            DROPPED.inc(len(batch) - room)
            log.error("the backlog is full: %d events are left to reconcile", len(batch) - room)
        for outgoing in batch[:room]:
            self._lanes.setdefault(outgoing.event.partition_key, []).append(outgoing)
            self._waiting += 1
        BACKLOG.set(self._waiting)

    def _wait_for_lanes(self, keys: set[str], *, timeout: float | None) -> bool:
        patience = self._producer.timeout if timeout is None else timeout
        with self._changed:
            return self._changed.wait_for(lambda: not (keys & self._lanes.keys()), patience)

    def _work(self) -> None:
        attempt = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._lanes)
                if attempt and not self._closing:
                    self._changed.wait_for(lambda: self._closing, self._retry.pause(min(attempt, 10)))
                closing, batch = self._closing, self._next_round()
            attempt = 0 if self._try(batch) else attempt + 1
            if closing:
                return

    def _next_round(self) -> list[Outgoing]:
        batch: list[Outgoing] = []
        for lane in self._lanes.values():
            batch += lane
            if len(batch) >= ROUND_EVENTS:
                break
        return batch

    def _try(self, batch: list[Outgoing]) -> bool:
        """Publish a round; what was taken leaves its lane, from the front."""
        if not batch:
            return True
        try:
            self._producer.publish(batch)
        except Unavailable as error:
            log.warning("%d events still wait for Kafka: %s", self._waiting, error.detail)
            return False
        with self._changed:
            for outgoing in batch:
                lane = self._lanes[outgoing.event.partition_key]
                lane.pop(0)
                self._waiting -= 1
                if not lane:
                    del self._lanes[outgoing.event.partition_key]
            BACKLOG.set(self._waiting)
            self._changed.notify_all()
        log.info("published %d events that had waited for Kafka", len(batch))
        return True
