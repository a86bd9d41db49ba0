"""Events on their way to Kafka, and who hears what becomes of them."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from foundation.kernel.events import TOPICS, Event
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.metrics import KAFKA_EVENTS, KAFKA_SECONDS

_DELIVERED = {topic: KAFKA_EVENTS.labels(topic, "delivered") for topic in TOPICS}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An event on its way, with what travels beside it."""

    event: Event
    headers: tuple[tuple[str, bytes], ...] = ()


Refused = Callable[[Outgoing], None]
# Hears of each event of a batch once, of several at a time, by their places there: None when Kafka holds them, else
# why it does not.
Told = Callable[[Sequence[int], EventLogUnavailable | None], None]


class Gathering:
    """Gathers what is told of a batch's events into one future, which ends once, whatever comes later."""

    def __init__(self, expected: int) -> None:
        self._lock = threading.Lock()
        self._waiting = expected
        self.done: Future[None] = Future()
        self.done.set_running_or_notify_cancel()
        if expected == 0:
            self.done.set_result(None)

    def told(self, places: Sequence[int], error: EventLogUnavailable | None) -> None:
        with self._lock:
            over = self._waiting <= 0
            self._waiting = 0 if error is not None else self._waiting - len(places)
            is_last = self._waiting == 0
        if over:
            return
        if error is not None:
            self.done.set_exception(error)
        elif is_last:
            self.done.set_result(None)


class Handed:
    """Events that were handed over together. Who takes one out of `_open` tells of it, so that nobody tells twice."""

    def __init__(
        self,
        batch: Sequence[Outgoing],
        told: Told,
        on_refused: Refused | None,
        *,
        on_done: "Callable[[Handed], None]",
    ) -> None:
        self._batch = batch
        self._told = told
        self._on_refused = on_refused
        self._on_done = on_done
        self._open = set(range(len(batch)))
        self._started = time.perf_counter()

    def take(self, places: Sequence[int]) -> None:
        """Kafka holds these."""
        for topic, count in Counter(self._batch[place].event.topic for place in places).items():
            _DELIVERED[topic].inc(count)
        self._tell(places, None)

    def refuse(self, place: int, reason: str) -> None:
        """Also after the deadline: an event that nobody tries again must not be forgotten."""
        outgoing = self._batch[place]
        KAFKA_EVENTS.labels(outgoing.event.topic, "refused").inc()
        if self._on_refused is not None:
            self._on_refused(outgoing)
        self._tell([place], EventLogUnavailable(f"Kafka did not take the event ({reason})"))

    def give_up(self, why: str) -> None:
        self._tell(sorted(self._open), EventLogUnavailable(f"Kafka did not take the event {why}"))

    def _tell(self, places: Sequence[int], error: EventLogUnavailable | None) -> None:
        news = [place for place in places if self._close(place)]
        if not news:
            return
        if not self._open:
            self._on_done(self)
            KAFKA_SECONDS.observe(time.perf_counter() - self._started)
        self._told(news, error)

    def _close(self, place: int) -> bool:
        try:
            self._open.remove(place)
        except KeyError:
            return False
        return True
