"""Kafka goes away and comes back: the engine is stopped with SIGSTOP and continued with SIGCONT.

A producer that fails for good is made to by librdkafka's own test function.
"""

import ctypes
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import confluent_kafka
import pytest

from foundation.kernel.events import Event
from foundation.kernel.retry import RetryPolicy
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka import EventConsumer, EventProducer, KafkaOptions, Outgoing
from tests.doubles import eventually, halted
from tests.engines import choice
from tests.engines.choice import AnyKafka

TOPIC = "messages.persisted"


@pytest.fixture(scope="module")
def engine() -> Iterator[AnyKafka]:
    """An engine of this module's own, because it is stopped."""
    engine = choice.make_kafka()
    with engine:
        yield engine


@pytest.fixture
def options(engine: AnyKafka) -> KafkaOptions:
    return KafkaOptions(bootstrap_servers=engine.endpoint, publish_timeout=0.5)


@pytest.fixture
def producer(options: KafkaOptions) -> Iterator[EventProducer]:
    producer = EventProducer(options, retry=RetryPolicy(first_pause=0.01, longest_pause=0.1))
    producer.publish_and_wait([outgoing("the first event waits for the connection", 0)], timeout=30)
    yield producer
    producer.close()


def publish(producer: EventProducer, event: Outgoing, *, timeout: float) -> Future[None]:
    """Publish without waiting."""
    done: Future[None] = Future()

    def on_delivered(positions: Sequence[int], error: EventLogUnavailable | None) -> None:
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    producer.publish([event], on_delivered=on_delivered, timeout=timeout)
    return done


def outgoing(key: str, number: int) -> Outgoing:
    event = Event("MessagePersisted", f"evt_{number}", datetime.now(UTC), key, {"sequence": number})
    return Outgoing(event, headers=(("origin-connection-id", b"here"),))


def read(options: KafkaOptions, key: str, count: int) -> list[int]:
    """The numbers that the log holds under a key, once there are `count` of them and no more arrive."""
    consumer = EventConsumer(options, group=f"reader-{key}", topics=[TOPIC])
    numbers: list[int] = []
    deadline = monotonic() + 20
    quiet = 0
    while quiet < 3 and monotonic() < deadline:
        records = consumer.read(timeout=0.1)
        numbers += [Event.decode(record.value).payload["sequence"] for record in records if record.key == key]
        quiet = quiet + 1 if len(numbers) >= count and not records else 0
    consumer.close()
    return numbers


class TestKafkaAway:
    def test_events_are_in_the_log_when_the_call_returns(self, producer: EventProducer, options: KafkaOptions) -> None:
        producer.publish_and_wait([outgoing("calm", number) for number in range(50)], timeout=30)
        assert read(options, "calm", 50) == list(range(50))

    def test_an_outage_is_an_error_within_the_deadline_and_nothing_is_lost_doubled_or_out_of_order(
        self, producer: EventProducer, engine: AnyKafka, options: KafkaOptions
    ) -> None:
        producer.publish_and_wait([outgoing("storm", 0)], timeout=30)
        with halted(engine.process.pid):
            for number in range(1, 4):
                with pytest.raises(EventLogUnavailable) as refused:
                    producer.publish_and_wait([outgoing("storm", number)])
                assert refused.value.code == "fanout_unavailable"
            unanswered = [publish(producer, outgoing("storm", number), timeout=30) for number in range(4, 30)]
        for answer in unanswered:
            answer.result(30)
        assert read(options, "storm", 30) == list(range(30))

    def test_events_that_waited_through_an_outage_are_published_without_another_call(
        self, producer: EventProducer, engine: AnyKafka, options: KafkaOptions
    ) -> None:
        with halted(engine.process.pid), pytest.raises(EventLogUnavailable):
            producer.publish_and_wait([outgoing("forgotten", 1)])
        assert read(options, "forgotten", 1) == [1]

    def test_the_deadline_may_be_set_for_each_call(
        self, producer: EventProducer, engine: AnyKafka, options: KafkaOptions
    ) -> None:
        with halted(engine.process.pid):
            first = publish(producer, outgoing("deadlines", 1), timeout=30)
            with pytest.raises(EventLogUnavailable):
                producer.publish_and_wait([outgoing("deadlines", 2)], timeout=0.05)
            assert not first.done()
        first.result(30)
        assert read(options, "deadlines", 2) == [1, 2]


class TestFatalError:
    def test_a_producer_that_failed_for_good_is_replaced_and_nothing_is_lost_or_out_of_order(
        self, producer: EventProducer, engine: AnyKafka, options: KafkaOptions
    ) -> None:
        with halted(engine.process.pid):
            waiting = [publish(producer, outgoing("fatal", number), timeout=30) for number in range(200)]
            fail_for_good(producer._producer)
            waiting += [publish(producer, outgoing("fatal", number), timeout=30) for number in range(200, 210)]
        assert all(isinstance(each.exception(30), EventLogUnavailable) for each in waiting[200:])
        eventually(lambda: producer.queued == 0)
        producer.publish_and_wait([outgoing("fatal", 210)], timeout=30)
        assert list(dict.fromkeys(read(options, "fatal", 211))) == list(range(211))


def fail_for_good(producer: confluent_kafka.Producer) -> None:
    """Bring librdkafka's producer into its fatal state, as a broker does that has lost its sequence numbers."""
    (path,) = (Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs").glob("librdkafka*")
    library = ctypes.CDLL(str(path))
    library.rd_kafka_test_fatal_error.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
    # The handle of librdkafka is the first field of the client's object.
    handle = ctypes.c_void_p.from_address(id(producer) + object.__basicsize__).value
    out_of_order = confluent_kafka.KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert library.rd_kafka_test_fatal_error(handle, out_of_order, b"a test") == 0


class TestClosing:
    def test_a_producer_that_closes_during_an_outage_ends_every_wait(
        self, engine: AnyKafka, options: KafkaOptions
    ) -> None:
        producer = EventProducer(options)
        producer.publish_and_wait([outgoing("closing", 0)], timeout=30)
        with halted(engine.process.pid):
            waiting = publish(producer, outgoing("closing", 1), timeout=600)
            assert producer.close(timeout=0.1) == 1
            assert isinstance(waiting.exception(5), EventLogUnavailable)
