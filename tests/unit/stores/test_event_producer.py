"""Handing over to Kafka, with a queue that fills at the wrong moment."""

from datetime import UTC, datetime
from typing import Any

import pytest

from config.kernel.events import Event
from config.stores.errors import EventLogUnavailable
from config.stores.kafka import EventProducer, KafkaOptions, Outgoing


class FullForASecond:
    """Refuses the second event it is handed, and takes all others."""

    def __init__(self) -> None:
        self.calls = 0
        self.taken: list[str] = []

    def produce(self, topic: str, *, value: bytes, **_: Any) -> None:
        self.calls += 1
        if self.calls == 2:
            raise BufferError
        self.taken.append(Event.decode(value).event_id)


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
    with pytest.raises(EventLogUnavailable):
        done.result(1)
