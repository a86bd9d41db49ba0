"""Publishing to a Kafka that is full, rejects events or is slow to report them."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from time import sleep
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from foundation.kernel.events import Event
from foundation.kernel.retry import RetryPolicy
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka import EventProducer, KafkaOptions, Outgoing
from foundation.stores.kafka.producer import DROPPED
from tests.doubles import eventually

Place = tuple[str, int]

OPTIONS = KafkaOptions(bootstrap_servers="127.0.0.1:1")
AT_ONCE = RetryPolicy(first_pause=0.001, longest_pause=0.001)
BEYOND_THE_TEST = 1000.0


class OnlyOnClose(RetryPolicy):
    """A backlog that is not retried before the producer closes."""

    def pause(self, attempt: int) -> float:
        return BEYOND_THE_TEST


class FakeKafka:
    """librdkafka's producer: queues events, and takes or rejects what is queued at the next poll."""

    def __init__(self, _configuration: object = None) -> None:
        self.is_full = False
        self.full_at: set[int] = set()
        self.rejects: Callable[[str], bool] = lambda key: False
        self.taken: list[Place] = []
        self.is_slow = self.has_failed = False
        self._calls = 0
        self._queue: list[tuple[Place, Callable[[KafkaError | None, None], None]]] = []
        self._lock = threading.Lock()
        self._has_events = threading.Event()

    def produce(self, topic: str, *, value: bytes, key: str, on_delivery: Callable[..., None], **_: Any) -> None:
        self._calls += 1
        if self.has_failed:
            raise KafkaException(KafkaError(KafkaError._FATAL))
        if self.is_full or self._calls in self.full_at:
            raise BufferError
        with self._lock:
            self._queue.append(((key, Event.decode(value).payload["sequence"]), on_delivery))
            self._has_events.set()

    def poll(self, timeout: float) -> None:
        self._has_events.wait(timeout)
        if self.is_slow and not self.has_failed:
            sleep(0.001)
            return
        with self._lock:
            queue, self._queue = self._queue, []
            self._has_events.clear()
            rejects = self.rejects
        for place, on_delivery in queue:
            if self.has_failed:
                on_delivery(KafkaError(KafkaError._PURGE_QUEUE), None)
                continue
            is_rejected = rejects(place[0])
            if not is_rejected:
                self.taken.append(place)
            on_delivery(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE) if is_rejected else None, None)

    def flush(self, timeout: float) -> int:
        self.poll(0)
        return len(self)

    def fail_for_good(self) -> None:
        """As librdkafka does: refuse every event from now on, and report the queue as purged, not in order."""
        with self._lock:
            self.has_failed = True
            self._queue.reverse()

    def purge(self, *, in_queue: bool, in_flight: bool) -> None:
        """Reports nothing that `poll` does not."""

    def __len__(self) -> int:
        return len(self._queue)


def outgoing(key: str, number: int) -> Outgoing:
    return Outgoing(Event("MessagePersisted", f"evt_{number}", datetime.now(UTC), key, {"sequence": number}))


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    kafka = FakeKafka()
    monkeypatch.setattr("foundation.stores.kafka.producer.Producer", lambda configuration: kafka)
    return kafka


@pytest.fixture
def producer(kafka: FakeKafka) -> Iterator[EventProducer]:
    producer = EventProducer(OPTIONS, retry=AT_ONCE)
    yield producer
    producer.close()


def refuse(producer: EventProducer, *batch: Outgoing) -> None:
    with pytest.raises(EventLogUnavailable):
        producer.publish_and_wait(batch)


class TestPublishing:
    def test_the_call_returns_when_kafka_has_taken_the_batch(self, producer: EventProducer, kafka: FakeKafka) -> None:
        producer.publish_and_wait([outgoing("a", 1), outgoing("b", 1)])
        assert kafka.taken == [("a", 1), ("b", 1)]
        assert producer.queued == 0

    def test_an_empty_batch_needs_no_kafka(self, producer: EventProducer, kafka: FakeKafka) -> None:
        kafka.is_full = True
        producer.publish_and_wait([])

    def test_a_refused_event_is_an_error_and_is_published_later(
        self, producer: EventProducer, kafka: FakeKafka
    ) -> None:
        kafka.is_full = True
        refuse(producer, outgoing("a", 1))
        assert producer.queued == 1
        kafka.is_full = False
        eventually(lambda: kafka.taken == [("a", 1)])

    def test_events_that_kafka_rejects_later_are_published_again_in_order(
        self, producer: EventProducer, kafka: FakeKafka
    ) -> None:
        refused: list[int] = []
        kafka.rejects = lambda key: True
        batch = [outgoing("a", 1), outgoing("a", 2), outgoing("b", 1)]
        producer.publish(batch, on_delivered=lambda positions, error: refused.extend(positions))
        eventually(lambda: len(refused) == 3)
        kafka.rejects = lambda key: False
        eventually(lambda: sorted(kafka.taken) == [("a", 1), ("a", 2), ("b", 1)])
        assert kafka.taken.index(("a", 1)) < kafka.taken.index(("a", 2))

    def test_an_event_that_keeps_being_refused_keeps_being_retried(
        self, producer: EventProducer, kafka: FakeKafka
    ) -> None:
        kafka.is_full = True
        for number in range(20):
            refuse(producer, outgoing("a", number))
        kafka.is_full = False
        eventually(lambda: kafka.taken == [("a", number) for number in range(20)])

    def test_concurrent_calls_lose_nothing_and_keep_the_order_of_each_key(
        self, producer: EventProducer, kafka: FakeKafka
    ) -> None:
        kafka.is_full = True

        def publish(key: str) -> None:
            for number in range(100):
                refuse(producer, outgoing(key, number))

        threads = [threading.Thread(target=publish, args=(key,)) for key in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        kafka.is_full = False
        eventually(lambda: len(kafka.taken) == 400)
        for key in "abcd":
            assert [number for each, number in kafka.taken if each == key] == list(range(100))


class TestOrder:
    @pytest.fixture
    def producer(self, kafka: FakeKafka) -> EventProducer:
        return EventProducer(OPTIONS, retry=OnlyOnClose())

    def test_later_events_of_a_refused_key_wait_behind_it_and_other_keys_do_not(
        self, producer: EventProducer, kafka: FakeKafka
    ) -> None:
        kafka.is_full = True
        refuse(producer, outgoing("a", 1))
        kafka.is_full = False
        refuse(producer, outgoing("a", 2), outgoing("b", 1))
        eventually(lambda: kafka.taken == [("b", 1)])
        assert producer.close() == 0
        assert kafka.taken == [("b", 1), ("a", 1), ("a", 2)]

    def test_no_event_of_a_batch_overtakes_a_refused_one_of_its_key(
        self, producer: EventProducer, kafka: FakeKafka
    ) -> None:
        kafka.full_at = {2}
        results: dict[int, bool] = {}
        keys = [("a", 1), ("a", 2), ("b", 1), ("a", 3), ("b", 2)]
        producer.publish(
            [outgoing(*key) for key in keys],
            on_delivered=lambda positions, error: results.update(dict.fromkeys(positions, error is None)),
        )
        eventually(lambda: len(results) == 5)
        assert kafka.taken == [("a", 1), ("b", 1), ("b", 2)]
        assert results == {0: True, 1: False, 2: True, 3: False, 4: True}
        assert producer.close() == 0
        assert kafka.taken[3:] == [("a", 2), ("a", 3)]


class TestBounds:
    def test_a_full_backlog_drops_events_and_counts_them(self, kafka: FakeKafka) -> None:
        producer = EventProducer(OPTIONS, retry=OnlyOnClose(), max_backlog=3)
        kafka.is_full = True
        dropped = DROPPED._value.get()
        for number in range(5):
            refuse(producer, outgoing("a", number))
        assert DROPPED._value.get() - dropped == 2
        kafka.is_full = False
        assert producer.close() == 0
        assert kafka.taken == [("a", 0), ("a", 1), ("a", 2)]

    def test_closing_tells_how_many_events_are_left(self, producer: EventProducer, kafka: FakeKafka) -> None:
        kafka.is_full = True
        for number in range(3):
            refuse(producer, outgoing("a", number))
        assert producer.close() == 3

    def test_events_are_refused_once_the_producer_is_closed(self, producer: EventProducer, kafka: FakeKafka) -> None:
        producer.publish_and_wait([outgoing("a", 1)])
        assert producer.close() == 0
        refuse(producer, outgoing("a", 2))
        assert kafka.taken == [("a", 1)]


class TestFatalError:
    """librdkafka's producer has failed for good."""

    @pytest.fixture
    def kafkas(self, monkeypatch: pytest.MonkeyPatch) -> list[FakeKafka]:
        """The producers that were made, the last one in use."""
        made: list[FakeKafka] = []

        def make(_configuration: object) -> FakeKafka:
            made.append(FakeKafka())
            return made[-1]

        monkeypatch.setattr("foundation.stores.kafka.producer.Producer", make)
        return made

    @pytest.fixture
    def producer(self, kafkas: list[FakeKafka]) -> Iterator[EventProducer]:
        producer = EventProducer(OPTIONS, retry=AT_ONCE, max_backlog=3)
        producer.publish_and_wait([outgoing("a", 0)])
        yield producer
        producer.close()

    def test_it_is_replaced_and_later_events_are_published(
        self, producer: EventProducer, kafkas: list[FakeKafka]
    ) -> None:
        kafkas[0].fail_for_good()
        refuse(producer, outgoing("a", 1))
        eventually(lambda: len(kafkas) == 2 and kafkas[1].taken == [("a", 1)])
        producer.publish_and_wait([outgoing("a", 2)])
        assert kafkas[1].taken == [("a", 1), ("a", 2)]

    def test_what_it_held_is_published_again_in_order_however_much_it_is(
        self, producer: EventProducer, kafkas: list[FakeKafka]
    ) -> None:
        refused: list[int] = []
        kafkas[0].is_slow = True
        batch = [outgoing(key, number) for number in range(1, 11) for key in "ab"]
        producer.publish(batch, on_delivered=lambda positions, error: refused.extend(positions))
        kafkas[0].fail_for_good()
        eventually(lambda: len(kafkas) == 2 and len(kafkas[1].taken) == 20)
        for key in "ab":
            assert [number for each, number in kafkas[1].taken if each == key] == list(range(1, 11))
        assert sorted(refused) == list(range(20))
        assert producer.queued == 0

    def test_one_that_fails_again_and_again_is_not_replaced_all_the_time(
        self, producer: EventProducer, kafkas: list[FakeKafka]
    ) -> None:
        kafkas[0].fail_for_good()
        refuse(producer, outgoing("a", 1))
        eventually(lambda: len(kafkas) == 2)
        kafkas[1].fail_for_good()
        refuse(producer, outgoing("b", 1))
        refuse(producer, outgoing("b", 2))
        assert len(kafkas) == 2


class TestReports:
    """Without the producer's thread: the test decides when reports and deadlines are served."""

    @pytest.fixture
    def producer(self, kafka: FakeKafka) -> EventProducer:
        producer = EventProducer(OPTIONS)
        producer.__dict__["_producer"] = kafka
        return producer

    def serve(self, producer: EventProducer, kafka: FakeKafka) -> None:
        kafka.poll(0)
        producer._report_delivered()

    def test_events_that_one_poll_reports_are_reported_batch_by_batch(
        self, producer: EventProducer, kafka: FakeKafka
    ) -> None:
        reports: list[tuple[str, list[int], bool]] = []

        def note(name: str, positions: Sequence[int], error: EventLogUnavailable | None) -> None:
            reports.append((name, list(positions), error is None))

        kafka.rejects = lambda key: key == "bad"
        producer.publish([outgoing("a", 1), outgoing("bad", 1), outgoing("b", 1)], on_delivered=partial(note, "first"))
        producer.publish([outgoing("a", 2), outgoing("b", 2)], on_delivered=partial(note, "second"))
        self.serve(producer, kafka)
        assert reports == [("first", [1], False), ("first", [0, 2], True), ("second", [0, 1], True)]

    def test_a_callback_that_fails_does_not_keep_the_others_from_being_called(
        self, producer: EventProducer, kafka: FakeKafka, caplog: pytest.LogCaptureFixture
    ) -> None:
        reported: list[int] = []

        def fail(positions: Sequence[int], error: EventLogUnavailable | None) -> None:
            raise ValueError("a bug")

        producer.publish([outgoing("a", 1)], on_delivered=fail)
        producer.publish([outgoing("a", 2)], on_delivered=lambda positions, error: reported.extend(positions))
        self.serve(producer, kafka)
        assert reported == [0]
        assert "a bug" in caplog.text

    def test_an_event_is_reported_once_though_kafka_takes_it_after_the_deadline(
        self, producer: EventProducer, kafka: FakeKafka
    ) -> None:
        reports: list[tuple[list[int], bool]] = []
        producer.publish(
            [outgoing("a", 1), outgoing("a", 2)],
            on_delivered=lambda positions, error: reports.append((list(positions), error is None)),
            timeout=0,
        )
        producer._expire()
        self.serve(producer, kafka)
        assert reports == [([0, 1], False)]
        assert kafka.taken == [("a", 1), ("a", 2)]

    def test_an_event_of_the_backlog_is_not_reported_again(self, producer: EventProducer, kafka: FakeKafka) -> None:
        reports: Counter[int] = Counter()
        kafka.is_full = True
        producer.publish([outgoing("a", 1)], on_delivered=lambda positions, error: reports.update(positions))
        kafka.is_full = False
        producer._publish_backlog()
        self.serve(producer, kafka)
        assert (kafka.taken, reports) == ([("a", 1)], Counter({0: 1}))
