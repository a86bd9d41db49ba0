"""Handing over to Kafka: a queue that fills at the wrong moment, and who hears of what was taken."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import KafkaError

from foundation.kernel.events import Event
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka import EventProducer, KafkaOptions, Outgoing, Told


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


class Answering:
    """Takes everything, and reports what it took at the next poll, except that it refuses the key `bad`."""

    def __init__(self) -> None:
        self._reports: list[Callable[[], None]] = []

    def produce(self, topic: str, *, key: str, on_delivery: Callable[[Any, None], None], **_: Any) -> None:
        error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE) if key == "bad" else None
        self._reports.append(lambda: on_delivery(error, None))

    def poll(self, timeout: float) -> None:
        reports, self._reports = self._reports, []
        for report in reports:
            report()


def serve_once(producer: EventProducer, kafka: Answering) -> None:
    """One round of the thread that serves reports."""
    kafka.poll(0)
    producer._tell_taken()


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


def test_what_one_poll_brings_is_told_batch_by_batch() -> None:
    producer = EventProducer(KafkaOptions(bootstrap_servers="127.0.0.1:1"))
    kafka = producer.__dict__["_producer"] = Answering()
    heard: list[tuple[str, list[int], bool]] = []

    def told(name: str) -> Told:
        return lambda places, error: heard.append((name, list(places), error is None))

    producer.hand_over([outgoing("a", 1), outgoing("bad", 1), outgoing("b", 1)], told("first"))
    producer.hand_over([outgoing("a", 2), outgoing("b", 2)], told("second"))
    serve_once(producer, kafka)
    assert heard == [("first", [1], False), ("first", [0, 2], True), ("second", [0, 1], True)]


def test_who_fails_to_hear_keeps_nobody_else_from_hearing(caplog: pytest.LogCaptureFixture) -> None:
    producer = EventProducer(KafkaOptions(bootstrap_servers="127.0.0.1:1"))
    kafka = producer.__dict__["_producer"] = Answering()
    heard: list[int] = []

    def deaf(places: Sequence[int], error: EventLogUnavailable | None) -> None:
        raise ValueError("deaf")

    producer.hand_over([outgoing("a", 1)], deaf)
    producer.hand_over([outgoing("a", 2)], lambda places, error: heard.extend(places))
    serve_once(producer, kafka)
    assert heard == [0]
    assert "deaf" in caplog.text


def test_an_event_is_told_of_once_though_its_report_comes_after_the_deadline() -> None:
    producer = EventProducer(KafkaOptions(bootstrap_servers="127.0.0.1:1"))
    kafka = producer.__dict__["_producer"] = Answering()
    heard: list[tuple[list[int], bool]] = []
    producer.hand_over(
        [outgoing("a", 1), outgoing("a", 2)],
        lambda places, error: heard.append((list(places), error is None)),
        timeout=0,
    )
    producer._expire()
    serve_once(producer, kafka)
    assert heard == [([0, 1], False)]
