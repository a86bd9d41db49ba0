"""The fanout process's loop: read, process, remember."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from prometheus_client import Gauge

from delivery.fanout.processor import MALFORMED, Processor
from foundation.kernel.errors import Unavailable
from foundation.kernel.retry import RetryPolicy
from foundation.stores.kafka import EventConsumer, Record

log = logging.getLogger(__name__)

LAG = Gauge("parley_fanout_lag_events", "Events between this worker and the end of its partitions.")
BATCH = 500
IDLE = 0.5
LAG_EVERY = 1.0


class Worker:
    """Runs until told to stop. An engine that is away holds the batch up; nothing is skipped for it."""

    def __init__(
        self,
        *,
        consumer: EventConsumer,
        processor: Processor,
        retry: RetryPolicy | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consumer = consumer
        self._processor = processor
        self._retry = retry or RetryPolicy(first_pause=0.05, longest_pause=2.0)
        self._monotonic = monotonic
        self._lag_due = monotonic()
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Finish the batch under way, remember it, and leave the group. Safe in a signal handler."""
        self._stopping.set()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                records = self._consumer.read(limit=BATCH, timeout=IDLE)
                if records and self._process(records):
                    self._mark_done(records)
                self._note_lag()
        finally:
            self._consumer.close()

    def _note_lag(self) -> None:
        now = self._monotonic()
        if now >= self._lag_due:
            self._lag_due = now + LAG_EVERY
            LAG.set(self._consumer.lag())

    def _process(self, records: Sequence[Record]) -> bool:
        """Try until it is done; False when told to stop before that: the batch will be read again."""
        attempt = 0
        while True:
            try:
                self._processor.process(records)
                return True
            except Unavailable as error:
                log.warning("%d events wait: %s", len(records), error.detail)
            except Exception:
                log.exception("%d events failed in a way nobody foresaw", len(records))
                return self._process_singly(records)
            if self._stopping.wait(self._retry.pause(min(attempt, 10))):
                return False
            attempt += 1

    def _process_singly(self, records: Sequence[Record]) -> bool:
        """The one to blame is told by its place and skipped: it stops nothing behind it."""
        if len(records) > 1:
            return all(self._process([record]) for record in records)
        MALFORMED.inc()
        log.error("skipped %s[%d] at %d", records[0].topic, records[0].partition, records[0].offset)
        return True

    def _mark_done(self, records: Sequence[Record]) -> None:
        """Progress that is not remembered costs a repetition, which does no harm."""
        try:
            self._consumer.mark_done(records)
        except Unavailable as error:
            log.warning("progress was not remembered: %s", error.detail)
