"""Handing over to Kafka, with a queue that fills at the wrong moment."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from config.kernel.events import Event
from config.stores.errors import EventLogUnavailable
from config.stores.kafka import EventProducer, KafkaOptions, Outgoing


class FullForASecond:
    """Refuses the second event it is handed, and delivers all others at once."""

    def __init__(self) -> None:
        self.calls = 0
        self.taken: list[str] = []

    def produce(self, topic: str, *, value: bytes, on_delivery: Callable[[None, None], None], **_: Any) -> None:
        self.calls += 1
        if self.calls == 2:
            raise BufferError
        self.taken.append(Event.decode(value).event_id)
        on_delivery(None, None)


class Deaf:
    """Delivers everything but what has this key, of which nothing is heard."""

    def __init__(self, key: str) -> None:
        self._key = key

    def produce(self, topic: str, *, key: str, on_delivery: Callable[[None, None], None], **_: Any) -> None:
        if key != self._key:
            on_delivery(None, None)


def outgoing(key: str, number: int) -> Outgoing:
    event_time = datetime(2026, 1, 30, tzinfo=UTC)
    return Outgoing(Event("MembershipChanged", f"{key}{number}", event_time, key, {}))


def test_no_event_of_a_key_overtakes_one_that_was_refused() -> None:
    producer = EventProducer(KafkaOptions(bootstrap_servers="127.0.0.1:1"))
    queue = producer.__dict__["_producer"] = FullForASecond()
    refused: list[str] = []
    batch = [outgoing("a", 1), outgoing("a", 2), outgoing("b", 1), outgoing("a", 3), outgoing("b", 2)]
    done = producer.produce(batch, on_refused=lambda each: refused.append(each.event.event_id))
    assert queue.taken == ["a1", "b1", "b2"]
    assert refused == ["a2", "a3"]
    with pytest.raises(EventLogUnavailable) as lost:
        done.result(1)
    assert (lost.value.concerns("a"), lost.value.concerns("b")) == (True, False)


def test_at_the_deadline_what_was_not_reported_counts_as_lost() -> None:
    producer = EventProducer(KafkaOptions(bootstrap_servers="127.0.0.1:1"))
    producer.__dict__["_producer"] = Deaf(key="b")
    done = producer.produce([outgoing("a", 1), outgoing("b", 1)], timeout=0.0)
    producer._expire()
    with pytest.raises(EventLogUnavailable) as lost:
        done.result(1)
    assert lost.value.keys == {"b"}
