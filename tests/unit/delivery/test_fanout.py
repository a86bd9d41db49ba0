"""From events to deliveries, with fakes of the engines."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import pytest
from redis.exceptions import RedisError

from delivery.fanout.processor import MAX_GAP, Gaps, Parcel, Processor, payloads
from delivery.parts import Fanout
from foundation.kernel.events import Event
from foundation.kernel.retry import RetryPolicy
from foundation.stores.errors import StoreUnavailable
from foundation.stores.kafka import EventConsumer, KafkaOptions, Record
from foundation.stores.metrics import EVENTS_SKIPPED


class FakeMembers:
    def __init__(self, members: dict[str, set[str]]) -> None:
        self.members = members
        self.invalidated: list[str] = []

    def members_of(self, chat_ids: Iterable[str]) -> dict[str, set[str]]:
        return {chat_id: self.members.get(chat_id, set()) for chat_id in chat_ids}

    def invalidate(self, chat_ids: Iterable[str]) -> None:
        self.invalidated += chat_ids


class FakeRoutes:
    def __init__(self, connections: dict[str, list[str]]) -> None:
        self.connections = connections
        self.published: list[dict[str, Any]] = []
        self.away = False

    def connections_of(self, groups: Sequence[Iterable[str]]) -> list[list[str]]:
        if self.away:
            raise RedisError("Redis is away")
        return [[found for user in users for found in self.connections.get(user, ())] for users in groups]

    def publish(self, payloads: Mapping[str, bytes]) -> set[str]:
        self.published += [{"gateway": gateway, **json.loads(data)} for gateway, data in payloads.items()]
        return set()

    def frames_for(self, connection: str) -> list[dict[str, Any]]:
        return [
            frame
            for payload in self.published
            for delivery in payload["deliveries"]
            if connection in delivery["connection_ids"]
            for frame in delivery["messages"]
        ]


def record(event_type: str, payload: dict[str, Any], *, origin: str | None = None, offset: int = 0) -> Record:
    event = Event(event_type, f"evt_{offset}", datetime(2026, 1, 30, tzinfo=UTC), payload["chat_id"], payload)
    headers = {"origin-connection-id": origin.encode()} if origin else {}
    return Record(event.topic, 0, offset, payload["chat_id"], event.encode(), headers)


def message(sequence: int, chat: str = "chat", **more: Any) -> dict[str, Any]:
    return {"message_id": f"msg_{sequence}", "chat_id": chat, "sequence": sequence, "content": "hi", **more}


def persisted(sequence: int, *, origin: str | None = None, chat: str = "chat") -> Record:
    return record("MessagePersisted", message(sequence, chat), origin=origin, offset=sequence)


class World:
    """Ann has a phone and a laptop on two gateways, Bob one connection, Eve is no member."""

    def __init__(self, *, stored: Sequence[int] = ()) -> None:
        self.members = FakeMembers({"chat": {"ann", "bob"}})
        self.routes = FakeRoutes({"ann": ["g1.phone", "g2.laptop"], "bob": ["g1.bob"], "eve": ["g1.eve"]})
        self.reads: list[tuple[int, int]] = []
        self.stored = set(stored)
        self.gaps = Gaps(self.read_between)
        self.processor = Processor(
            members=self.members,  # type: ignore[arg-type]
            routes=self.routes,  # type: ignore[arg-type]
            gaps=self.gaps,
        )

    def read_between(self, chat_id: str, first: int, last: int) -> list[dict[str, Any]]:
        self.reads.append((first, last))
        return [message(sequence) for sequence in range(first, last + 1) if sequence in self.stored]

    def seen_by(self, connection: str) -> list[int]:
        return [frame["sequence"] for frame in self.routes.frames_for(connection) if frame["type"] == "message"]


class TestMessages:
    def test_every_connection_of_every_member_but_the_one_that_sent(self) -> None:
        world = World()
        world.processor.process([persisted(1, origin="g1.phone")])
        assert {name: world.seen_by(name) for name in ("g1.phone", "g2.laptop", "g1.bob", "g1.eve")} == {
            "g1.phone": [],
            "g2.laptop": [1],
            "g1.bob": [1],
            "g1.eve": [],
        }

    def test_two_senders_in_one_batch_get_each_others_messages(self) -> None:
        world = World()
        world.processor.process([persisted(1, origin="g1.phone"), persisted(2, origin="g1.bob")])
        assert (world.seen_by("g1.phone"), world.seen_by("g1.bob"), world.seen_by("g2.laptop")) == ([2], [1], [1, 2])

    def test_one_publish_per_gateway_carries_several_chats(self) -> None:
        world = World()
        world.members.members["other"] = {"bob"}
        world.processor.process([persisted(1), persisted(1, chat="other")])
        assert sorted(payload["gateway"] for payload in world.routes.published) == ["g1", "g2"]

    def test_nobody_online_means_nothing_published(self) -> None:
        world = World()
        world.routes.connections.clear()
        world.processor.process([persisted(1)])
        assert world.routes.published == []


class TestGaps:
    def test_a_lost_event_is_filled_from_the_store_in_order(self) -> None:
        world = World(stored=[2, 3])
        world.processor.process([persisted(1)])
        world.processor.process([persisted(4)])
        assert world.seen_by("g1.bob") == [1, 2, 3, 4]
        assert world.reads == [(2, 3)]

    def test_a_repeated_event_is_not_delivered_again(self) -> None:
        world = World()
        world.processor.process([persisted(1), persisted(2)])
        world.processor.process([persisted(1), persisted(2), persisted(3)])
        assert world.seen_by("g1.bob") == [1, 2, 3]

    def test_events_out_of_order_in_a_batch_are_put_in_order(self) -> None:
        world = World()
        world.processor.process([persisted(2), persisted(1), persisted(3)])
        assert world.seen_by("g1.bob") == [1, 2, 3]
        assert world.reads == []

    def test_a_chat_seen_for_the_first_time_has_no_gap(self) -> None:
        world = World(stored=range(1, 50))
        world.processor.process([persisted(50)])
        assert world.seen_by("g1.bob") == [50]

    def test_a_gap_too_long_to_push_is_left_to_sync(self) -> None:
        world = World(stored=range(1, 1000))
        world.processor.process([persisted(1)])
        world.processor.process([persisted(MAX_GAP + 10)])
        assert world.seen_by("g1.bob") == [1, MAX_GAP + 10]

    def test_a_batch_that_failed_is_delivered_again(self) -> None:
        world = World()
        world.routes.away = True
        with pytest.raises(RedisError):
            world.processor.process([persisted(1)])
        world.routes.away = False
        world.processor.process([persisted(1)])
        assert world.seen_by("g1.bob") == [1]

    def test_memory_is_bounded(self) -> None:
        gaps = Gaps(lambda *_: [], capacity=2)
        for chat in ("a", "b", "c"):
            gaps.advance(chat, 5)
        assert gaps.complete("a", [message(9)]) == [message(9)]
        assert gaps.complete("c", [message(5)]) == []


class TestNotices:
    def test_a_new_chat_reaches_its_first_members(self) -> None:
        world = World()
        world.processor.process([record("ChatCreated", {"chat_id": "new", "initial_members": ["bob", "eve"]})])
        assert world.routes.frames_for("g1.eve") == [
            {"type": "chat_created", "chat_id": "new", "initial_members": ["bob", "eve"]}
        ]
        assert world.routes.frames_for("g1.phone") == []

    def test_a_membership_change_clears_the_cache_and_reaches_the_members_and_the_user_concerned(self) -> None:
        world = World()
        change = {"chat_id": "chat", "user_id": "eve", "change_type": "removed"}
        world.processor.process([record("MembershipChanged", change)])
        assert world.members.invalidated == ["chat"]
        for connection in ("g1.eve", "g1.bob", "g2.laptop"):
            assert world.routes.frames_for(connection) == [{"type": "membership_changed", **change}]


class TestMalformed:
    @pytest.mark.parametrize(
        "value",
        [
            b"not json",
            record("MessagePersisted", {"chat_id": "chat", "sequence": "1", "message_id": "m"}).value,
            record("MembershipChanged", {"chat_id": "chat"}).value,
            record("ChatCreated", {"chat_id": "chat", "initial_members": None}).value,
        ],
    )
    def test_a_malformed_event_is_skipped_and_stops_nothing(self, value: bytes) -> None:
        world = World()
        broken = Record("messages.persisted", 0, 7, "chat", value, {})
        world.processor.process([broken, persisted(1)])
        assert world.seen_by("g1.bob") == [1]


class TestRouting:
    def test_connections_are_grouped_by_the_gateway_their_id_names(self) -> None:
        parcel = Parcel(frozenset({"ann"}), [({"type": "x"}, None)])
        found = payloads([(parcel, ["g1.a", "g1.b", "g2.c"])])
        assert {gateway: json.loads(data)["deliveries"][0]["connection_ids"] for gateway, data in found.items()} == {
            "g1": ["g1.a", "g1.b"],
            "g2": ["g2.c"],
        }


class FakeConsumer(EventConsumer):
    """Reads one batch, then stops; records the offsets that are stored."""

    def __init__(self, batch: list[Record]) -> None:
        super().__init__(
            KafkaOptions(bootstrap_servers="fake"),
            group="fanout",
            retry=RetryPolicy(first_pause=0.001, longest_pause=0.001),
        )
        self.batch = batch
        self.stored: list[Record] = []
        self.is_closed = False

    def read(self, *, limit: int = 500, timeout: float = 1.0) -> list[Record]:
        batch, self.batch = self.batch, []
        if not batch:
            self.stop()
        return batch

    def store_offsets(self, records: Sequence[Record]) -> None:
        self.stored += records

    def lag(self) -> int:
        return 0

    def close(self) -> None:
        self.is_closed = True


class FailingProcessor:
    """Raises `error` for the first calls, and for every batch with a record of `poison`'s offset."""

    def __init__(self, error: Exception, *, failures: int = 0, poison: int | None = None) -> None:
        self.error, self.failures, self.poison = error, failures, poison
        self.processed: list[Record] = []

    def process(self, records: Sequence[Record]) -> None:
        self.failures -= 1
        if self.failures >= 0 or self.poison in {record.offset for record in records}:
            raise self.error
        self.processed += records


@pytest.fixture
def _no_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foundation.stores.kafka.consumer.Consumer", Mock())


@pytest.mark.usefixtures("_no_kafka")
class TestFanout:
    @pytest.mark.parametrize("error", [StoreUnavailable("away"), RedisError("away")])
    def test_while_an_engine_is_away_the_batch_is_retried_and_its_offsets_are_stored_after_that(
        self, error: Exception
    ) -> None:
        consumer, processor = FakeConsumer([persisted(1)]), FailingProcessor(error, failures=3)
        Fanout(consumer, processor).run()  # type: ignore[arg-type]
        assert (processor.processed, consumer.stored) == ([persisted(1)], [persisted(1)])
        assert consumer.is_closed

    def test_stopped_while_an_engine_is_away_it_stores_no_offsets(self) -> None:
        consumer = FakeConsumer([persisted(1)])
        processor = FailingProcessor(StoreUnavailable("away"), failures=10**6)
        fanout = Fanout(consumer, processor)  # type: ignore[arg-type]
        read = consumer.read

        def read_and_stop(*, limit: int, timeout: float) -> list[Record]:
            fanout.stop()
            return read(limit=limit, timeout=timeout)

        consumer.read = read_and_stop  # type: ignore[method-assign, assignment]
        fanout.run()
        assert consumer.stored == []
        assert consumer.is_closed

    def test_an_event_that_always_fails_is_skipped_and_the_others_of_its_batch_are_delivered(self) -> None:
        batch = [persisted(1), persisted(2), persisted(3)]
        consumer, processor = FakeConsumer(batch), FailingProcessor(ZeroDivisionError(), poison=2)
        before = EVENTS_SKIPPED._value.get()
        Fanout(consumer, processor).run()  # type: ignore[arg-type]
        assert (processor.processed, consumer.stored) == ([persisted(1), persisted(3)], batch)
        assert EVENTS_SKIPPED._value.get() == before + 1
