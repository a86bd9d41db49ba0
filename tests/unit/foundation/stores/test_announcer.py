import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import pytest

from foundation.kernel.events import Event
from foundation.kernel.retry import RetryPolicy
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka import EventProducer, Outgoing, Refused, Told
from foundation.stores.kafka.announcer import DROPPED, Announcer
from tests.doubles import eventually

AT_ONCE = RetryPolicy(first_pause=0.001, longest_pause=0.001)


class PlayedProducer(EventProducer):
    """Takes events, or refuses them: on the spot while `full`, and later through `refuse_late`."""

    def __init__(self) -> None:
        self.full = False
        self.taken: list[tuple[str, int]] = []
        self.handed: list[tuple[Outgoing, Refused | None]] = []

    @property
    def queued(self) -> int:
        return 0

    def hand_over(
        self,
        batch: Sequence[Outgoing],
        told: Told,
        *,
        timeout: float | None = None,
        on_refused: Refused | None = None,
    ) -> None:
        for place, outgoing in enumerate(batch):
            if self.full:
                assert on_refused is not None
                on_refused(outgoing)
                told([place], EventLogUnavailable("full"))
            else:
                self.taken.append(where(outgoing))
                self.handed.append((outgoing, on_refused))
                told([place], None)

    def refuse_late(self) -> None:
        """The brokers turn down everything they were handed so far."""
        handed, self.handed, self.taken = self.handed, [], []
        for outgoing, on_refused in handed:
            assert on_refused is not None
            on_refused(outgoing)


def outgoing(key: str, number: int) -> Outgoing:
    return Outgoing(Event("MessagePersisted", f"evt_{number}", datetime.now(UTC), key, {"sequence": number}))


def where(outgoing: Outgoing) -> tuple[str, int]:
    return outgoing.event.partition_key, outgoing.event.payload["sequence"]


@pytest.fixture
def producer() -> PlayedProducer:
    return PlayedProducer()


@pytest.fixture
def announcer(producer: PlayedProducer) -> Iterator[Announcer]:
    announcer = Announcer(producer, retry=AT_ONCE)
    yield announcer
    announcer.close()


class TestAnnouncing:
    def test_what_the_producer_takes_is_announced(self, announcer: Announcer, producer: PlayedProducer) -> None:
        announcer.announce([outgoing("a", 1), outgoing("b", 1)])
        assert producer.taken == [("a", 1), ("b", 1)]

    def test_nothing_to_announce_is_announced(self, announcer: Announcer) -> None:
        announcer.announce([])

    def test_what_was_refused_is_told_and_published_later(self, announcer: Announcer, producer: PlayedProducer) -> None:
        producer.full = True
        with pytest.raises(EventLogUnavailable):
            announcer.announce([outgoing("a", 1)])
        producer.full = False
        eventually(lambda: producer.taken == [("a", 1)])

    def test_what_the_brokers_turned_down_later_is_published_again(
        self, announcer: Announcer, producer: PlayedProducer
    ) -> None:
        announcer.announce([outgoing("a", 1), outgoing("a", 2), outgoing("b", 1)])
        producer.refuse_late()
        eventually(lambda: sorted(producer.taken) == [("a", 1), ("a", 2), ("b", 1)])
        assert producer.taken.index(("a", 1)) < producer.taken.index(("a", 2))

    def test_later_events_of_a_refused_key_wait_behind_it_and_other_keys_do_not(self, producer: PlayedProducer) -> None:
        announcer = Announcer(producer, retry=RetryPolicy(first_pause=100, longest_pause=100))
        producer.full = True
        with pytest.raises(EventLogUnavailable):
            announcer.announce([outgoing("a", 1)])
        producer.full = False
        with pytest.raises(EventLogUnavailable):
            announcer.announce([outgoing("a", 2), outgoing("b", 1)])
        assert producer.taken == [("b", 1)]
        assert announcer.close() == 0
        assert producer.taken == [("b", 1), ("a", 1), ("a", 2)]

    def test_an_event_that_keeps_being_refused_keeps_being_tried(
        self, announcer: Announcer, producer: PlayedProducer
    ) -> None:
        producer.full = True
        for number in range(20):
            with pytest.raises(EventLogUnavailable):
                announcer.announce([outgoing("a", number)])
        producer.full = False
        eventually(lambda: producer.taken == [("a", number) for number in range(20)])

    def test_concurrent_announcements_lose_nothing(self, announcer: Announcer, producer: PlayedProducer) -> None:
        producer.full = True

        def announce(key: str) -> None:
            for number in range(100):
                with pytest.raises(EventLogUnavailable):
                    announcer.announce([outgoing(key, number)])

        threads = [threading.Thread(target=announce, args=(key,)) for key in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        producer.full = False
        eventually(lambda: len(producer.taken) == 400)
        for key in "abcd":
            assert [number for each, number in producer.taken if each == key] == list(range(100))


class TestBounds:
    def test_a_full_backlog_drops_and_counts(self, producer: PlayedProducer) -> None:
        announcer = Announcer(producer, retry=RetryPolicy(first_pause=100, longest_pause=100), max_backlog=3)
        producer.full = True
        dropped = DROPPED._value.get()
        for number in range(5):
            with pytest.raises(EventLogUnavailable):
                announcer.announce([outgoing("a", number)])
        assert DROPPED._value.get() - dropped == 2
        producer.full = False
        announcer.close()
        assert producer.taken == [("a", 0), ("a", 1), ("a", 2)]

    def test_closing_tells_how_many_are_left(self, announcer: Announcer, producer: PlayedProducer) -> None:
        producer.full = True
        for number in range(3):
            with pytest.raises(EventLogUnavailable):
                announcer.announce([outgoing("a", number)])
        assert announcer.close() == 3
