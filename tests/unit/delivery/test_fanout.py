"""From events to deliveries, with fakes of the engines."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import TopicPartition
from hypothesis import given, settings
from hypothesis.strategies import (
    booleans,
    dictionaries,
    fixed_dictionaries,
    floats,
    integers,
    just,
    lists,
    none,
    recursive,
    sampled_from,
    text,
)
from redis.exceptions import BusyLoadingError, NoScriptError, OutOfMemoryError, ReadOnlyError

from delivery.fanout.processor import MAX_GAP, FrameBatch, Gaps, Processor, payloads
from delivery.parts import Fanout
from foundation.kernel.events import REPUBLISHED_HEADER, TOPIC_OF, Event
from foundation.kernel.retry import RetryPolicy
from foundation.rest.health import EngineProbes
from foundation.stores.errors import StoreUnavailable
from foundation.stores.kafka import EventConsumer, KafkaOptions, Record
from foundation.stores.kafka.consumer import MAX_IDLE_SECONDS
from foundation.stores.metrics import EVENTS_SKIPPED, FANOUT_RETRIES, FANOUT_STALLED


class FakeMembers:
    def __init__(self, members: dict[str, set[str]]) -> None:
        self.members = members
        self.invalidated: list[str] = []
        self.on_invalidate: Callable[[], object] = lambda: None

    def members_of(self, chat_ids: Iterable[str]) -> dict[str, set[str]]:
        return {chat_id: self.members.get(chat_id, set()) for chat_id in chat_ids}

    def invalidate(self, chat_ids: Iterable[str]) -> None:
        self.invalidated += chat_ids
        self.on_invalidate()

    def forget_reads(self) -> None: ...


class FakeRoutes:
    def __init__(self, connections: dict[str, list[str]]) -> None:
        self.connections = connections
        self.published: list[dict[str, Any]] = []
        self.away = False

    def connections_of(self, groups: Sequence[Iterable[str]]) -> list[list[str]]:
        if self.away:
            raise StoreUnavailable("Redis is away")
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


def record(
    event_type: str,
    payload: dict[str, Any],
    *,
    origin: str | None = None,
    offset: int = 0,
    headers: Mapping[str, bytes] | None = None,
) -> Record:
    event = Event(event_type, f"evt_{offset}", datetime(2026, 1, 30, tzinfo=UTC), payload["chat_id"], payload)
    sent_by = {"origin-connection-id": origin.encode()} if origin else {}
    return Record(event.topic, 0, offset, payload["chat_id"], event.encode(), {**sent_by, **(headers or {})})


def message(sequence: int, chat: str = "chat", **more: Any) -> dict[str, Any]:
    return {"message_id": f"msg_{sequence}", "chat_id": chat, "sequence": sequence, "content": "hi", **more}


def persisted(sequence: int, *, origin: str | None = None, chat: str = "chat") -> Record:
    return record("MessagePersisted", message(sequence, chat), origin=origin, offset=sequence)


TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


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


def entry(sequence: int, kind: str, **fields: Any) -> Record:
    return record("EntryPersisted", message(sequence, kind=kind, **fields), offset=sequence)


class TestOtherEntries:
    def test_they_are_delivered_as_messages_are(self) -> None:
        world = World()
        world.processor.process([persisted(1), entry(2, "reaction", target=1, emoji="+", action="add"), persisted(3)])
        assert world.seen_by("g1.bob") == [1, 2, 3]
        assert world.routes.frames_for("g1.bob")[1]["kind"] == "reaction"

    def test_a_removed_member_gets_the_notice_and_nothing_after_it(self) -> None:
        world = World()
        world.members.on_invalidate = lambda: world.members.members.update(chat={"ann"})
        notice = {"type": "member_removed", "user_ids": ["bob"], "roles": ["member"]}
        world.processor.process([persisted(1), entry(2, "notice", notice=notice), persisted(3)])
        assert (world.seen_by("g1.bob"), world.seen_by("g2.laptop")) == ([1, 2], [1, 2, 3])
        assert world.members.invalidated == ["chat"]

    def test_a_new_member_gets_the_notice_and_everything_after_it(self) -> None:
        world = World()
        world.members.on_invalidate = lambda: world.members.members.update(chat={"ann", "bob", "eve"})
        notice = {"type": "member_added", "user_ids": ["eve"], "roles": ["member"]}
        world.processor.process([entry(2, "notice", notice=notice), persisted(3)])
        assert world.seen_by("g1.eve") == [2, 3]

    @pytest.mark.parametrize("notice", [None, 7, {"type": "chat_renamed", "name": "x"}, {"type": "member_added"}])
    def test_other_notices_invalidate_nothing(self, notice: object) -> None:
        world = World()
        world.processor.process([entry(1, "notice", notice=notice)])
        assert (world.seen_by("g1.bob"), world.members.invalidated) == ([1], [])


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

    def test_a_senders_trace_is_beside_the_message_and_not_in_its_frame(self) -> None:
        world, traced = World(), persisted(2, origin="g1.phone")
        traced.headers["traceparent"] = TRACEPARENT.encode()
        world.processor.process([persisted(1), traced])
        for payload in world.routes.published:
            for delivery in payload["deliveries"]:
                assert delivery["traceparents"] == {"msg_2": TRACEPARENT}
        assert "traceparent" not in str(world.routes.frames_for("g1.bob"))

    @pytest.mark.parametrize("header", [None, b"", b"\xff", b"00-1-2-3"])
    def test_without_a_trace_nothing_is_added(self, header: bytes | None) -> None:
        world, plain = World(), persisted(1)
        if header is not None:
            plain.headers["traceparent"] = header
        world.processor.process([plain])
        assert "traceparents" not in str(world.routes.published)

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
        with pytest.raises(StoreUnavailable):
            world.processor.process([persisted(1)])
        world.routes.away = False
        world.processor.process([persisted(1)])
        assert world.seen_by("g1.bob") == [1]

    def test_a_worker_that_starts_between_two_swapped_events_delivers_both(self) -> None:
        world = World(stored=range(1, 10))
        world.processor.process([persisted(6)])
        world.processor.process([persisted(5)])
        world.processor.process([persisted(7), persisted(5), persisted(6)])
        assert world.seen_by("g1.bob") == [6, 5, 7]
        assert world.reads == []

    @pytest.mark.parametrize("wrong", [2, 100, 10**12])
    def test_an_event_with_a_sequence_that_its_chat_has_not_reached_hides_no_message(self, wrong: int) -> None:
        """The sequence alone does not show that the event is wrong; DynamoDB has no such messages."""
        world = World()
        world.processor.process([persisted(sequence) for sequence in range(50, 60)])
        world.processor.process([persisted(60 + wrong)])
        for sequence in (60, 61, 62):
            world.processor.process([persisted(sequence)])
        assert [sequence for sequence in world.seen_by("g1.bob") if sequence < 60 + wrong] == list(
            range(50, min(63, 60 + wrong))
        )

    def test_an_event_with_a_sequence_of_long_ago_hides_no_message(self) -> None:
        world = World()
        world.processor.process([persisted(1000), persisted(1001)])
        world.processor.process([persisted(1)])
        world.processor.process([persisted(1002)])
        assert world.seen_by("g1.bob") == [1000, 1001, 1, 1002]

    def test_memory_is_bounded(self) -> None:
        gaps = Gaps(lambda *_: [], capacity=2)
        for chat in ("a", "b", "c"):
            gaps.advance(chat, [message(5)])
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

    def test_a_change_that_is_published_again_is_told_only_while_it_is_true(self) -> None:
        world = World()
        for user, change in (("eve", "added"), ("bob", "removed")):
            payload = {"chat_id": "chat", "user_id": user, "change_type": change, "sequence": 3}
            world.processor.process([record("MembershipChanged", payload, headers={REPUBLISHED_HEADER: b"1"})])
        assert world.members.invalidated == ["chat", "chat"]
        assert world.routes.frames_for("g1.eve") == world.routes.frames_for("g1.bob") == []
        told = {"chat_id": "chat", "user_id": "eve", "change_type": "removed", "sequence": 4}
        world.processor.process([record("MembershipChanged", told, headers={REPUBLISHED_HEADER: b"1"})])
        assert world.routes.frames_for("g1.eve") == [{"type": "membership_changed", **told}]

    def test_a_chat_that_is_published_again_reaches_those_who_are_still_members(self) -> None:
        world = World()
        payload = {"chat_id": "chat", "initial_members": ["bob", "eve"]}
        world.processor.process([record("ChatCreated", payload, headers={REPUBLISHED_HEADER: b"1"})])
        assert world.routes.frames_for("g1.eve") == []
        assert world.routes.frames_for("g1.bob") == [{"type": "chat_created", **payload}]


DEEP: Any = json.loads("[" * 500 + "]" * 500)


WRONG_FIELDS: list[dict[str, Any]] = [
    {"sequence": "1"},
    {"sequence": True},
    {"sequence": 1.0},
    {"sequence": 0},
    {"sequence": -1},
    {"sequence": 2**53},
    {"sequence": 2**64},
    {"sequence": None},
    {"chat_id": 5},
    {"chat_id": "c" * 3000},
    {"message_id": ["m"]},
    {"content": 5},
    {"sender_id": {}},
    {"created_at": None},
    {"type": "connected"},
    {"notice": {"user_ids": ["bob"]}},
    {"notice": {"type": ["member_added"]}},
    {"notice": {"type": {}, "user_ids": ["bob"]}},
    {"notice": {"type": "member_added", "user_ids": "bob"}},
    {"notice": {"type": "member_added", "user_ids": [["bob"]]}},
    {"extra": DEEP},
]


JSON = recursive(
    none() | booleans() | integers(-(2**65), 2**65) | floats(allow_nan=False, allow_infinity=False) | text(),
    lambda inner: lists(inner, max_size=3) | dictionaries(text(), inner, max_size=3),
    max_leaves=8,
)
PAYLOADS = fixed_dictionaries(
    {"chat_id": just("chat") | JSON, "message_id": just("msg_1") | JSON, "sequence": integers(1, 9) | JSON},
    optional={
        "user_id": just("bob") | JSON,
        "initial_members": lists(sampled_from(["ann", "bob"])) | JSON,
        "notice": fixed_dictionaries(
            {"type": sampled_from(["member_added", "member_left", "other"]) | JSON},
            optional={"user_ids": lists(just("bob") | JSON, max_size=2) | JSON},
        )
        | JSON,
        **dict.fromkeys(("kind", "content", "sender_id", "change_type", "type", "extra"), JSON),
    },
)
"""Payloads of every kind, in which each field may have any JSON value."""


def envelope(**fields: Any) -> bytes:
    """A message's envelope with other fields, as JSON that the standard library writes."""
    sound = json.loads(persisted(2).value)
    return json.dumps({**sound, **fields}).encode()


class TestMalformed:
    @pytest.mark.parametrize(
        "value",
        [
            b"not json",
            b"[" * 2000,
            b"[]",
            envelope(event_time="0001-01-01T00:00:00+23:59"),
            envelope(event_time="9999-12-31T23:59:59-23:59"),
            envelope(event_time="2026-02-30T00:00:00Z"),
            envelope(event_time=1),
            envelope(event_type=["MessagePersisted"]),
            envelope(payload=[]),
            *(envelope(payload={**message(2), **wrong}) for wrong in WRONG_FIELDS),
            envelope(event_type="MembershipChanged", payload={"chat_id": "chat"}),
            envelope(event_type="MembershipChanged", payload={"chat_id": "chat", "user_id": ["bob"]}),
            envelope(event_type="MembershipChanged", payload={"chat_id": "chat", "user_id": "bob", "type": "error"}),
            envelope(event_type="MembershipChanged", payload={"chat_id": "chat", "user_id": "bob", "sequence": None}),
            envelope(event_type="ChatCreated", payload={"chat_id": "chat", "initial_members": None}),
            envelope(event_type="ChatCreated", payload={"chat_id": "chat", "initial_members": ["bob", 1]}),
            envelope(event_type="ChatCreated", payload={"chat_id": "chat", "initial_members": [], "type": "error"}),
        ],
    )
    def test_a_malformed_event_is_skipped_by_its_place_and_the_chat_goes_on(
        self, value: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        world = World()
        skipped = EVENTS_SKIPPED._value.get()
        broken = Record("messages.persisted", 0, 7, "chat", value, {})
        world.processor.process([broken, persisted(1)])
        world.processor.process([persisted(2)])
        assert world.seen_by("g1.bob") == [1, 2]
        assert [frame["type"] for frame in world.routes.frames_for("g1.bob")] == ["message", "message"]
        assert EVENTS_SKIPPED._value.get() == skipped + 1
        assert "skipped messages.persisted[0] at 7" in caplog.text

    @settings(max_examples=100, deadline=None, derandomize=True)
    @given(event_type=sampled_from(sorted(TOPIC_OF)), payload=PAYLOADS)
    def test_no_event_of_any_shape_stops_a_partition(self, event_type: str, payload: dict[str, Any]) -> None:
        world = World()
        for headers in ({}, {REPUBLISHED_HEADER: b"1"}):
            broken = Record("topic", 0, 7, "chat", envelope(event_type=event_type, payload=payload), headers)
            world.processor.process([broken])
        world.processor.process([persisted(3)])
        assert world.seen_by("g1.phone")

    def test_fields_of_a_newer_version_are_passed_on(self) -> None:
        world = World()
        new = message(1, mentions=["user_1"], reply_to=5)
        world.processor.process([record("MessagePersisted", new)])
        assert world.routes.frames_for("g1.bob") == [{**new, "type": "message"}]


class TestRouting:
    def test_connections_are_grouped_by_the_gateway_their_id_names(self) -> None:
        frame_batch = FrameBatch(frozenset({"ann"}), [({"type": "x"}, None)])
        found = payloads([(frame_batch, ["g1.a", "g1.b", "g2.c"])])
        assert {gateway: json.loads(data)["deliveries"][0]["connection_ids"] for gateway, data in found.items()} == {
            "g1": ["g1.a", "g1.b"],
            "g2": ["g2.c"],
        }


class FakeKafka:
    """The client library's consumer: partitions of `messages.persisted` with records, paused and resumed."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.queue = list(records)
        self.partitions = {record.partition for record in records}
        self.paused: set[int] = set()
        self.stored: dict[int, int] = {}
        self.on_empty: Callable[[], None] = lambda: None
        self.on_revoke: Callable[[object, list[TopicPartition]], None] = lambda *_: None
        self.is_closed = False

    def subscribe(self, topics: list[str], *, on_revoke: Callable[[object, list[TopicPartition]], None]) -> None:
        self.on_revoke = on_revoke

    def poll(self, timeout: float) -> Mock | None:
        found = self.consume(1, timeout)
        if not found:
            self.on_empty()
            sleep(min(timeout, 0.001))
        return found[0] if found else None

    def consume(self, limit: int, timeout: float) -> list[Mock]:
        found = [record for record in self.queue if record.partition not in self.paused][:limit]
        self.queue = [record for record in self.queue if record not in found]
        return [_message(record) for record in found]

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("messages.persisted", partition) for partition in self.partitions]

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.paused |= {each.partition for each in partitions}

    def resume(self, partitions: list[TopicPartition]) -> None:
        self.paused -= {each.partition for each in partitions}

    def store_offsets(self, *, offsets: list[TopicPartition]) -> None:
        self.stored |= {each.partition: each.offset for each in offsets}

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        return []

    def close(self) -> None:
        self.is_closed = True


def _message(record: Record) -> Mock:
    return Mock(
        error=lambda: None,
        topic=lambda: record.topic,
        partition=lambda: record.partition,
        offset=lambda: record.offset,
        key=record.key.encode,
        value=lambda: record.value,
        headers=list,
    )


class FakeProcessor:
    """Raises what `fails` returns for a batch, if anything."""

    def __init__(self, fails: Callable[[Sequence[Record]], Exception | None]) -> None:
        self.fails = fails
        self.processed: list[Record] = []

    def process(self, records: Sequence[Record]) -> None:
        if (error := self.fails(records)) is not None:
            raise error
        self.processed += records


class Worker:
    """A fanout worker on fakes, with a retry policy of a millisecond."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        records: Sequence[Record],
        fails: Callable[[Sequence[Record]], Exception | None],
    ) -> None:
        self.kafka, self.processor = FakeKafka(records), FakeProcessor(fails)
        monkeypatch.setattr("foundation.stores.kafka.consumer.Consumer", lambda _configuration: self.kafka)
        retry = RetryPolicy(first_pause=0.001, longest_pause=0.001)
        self.consumer = EventConsumer(KafkaOptions(bootstrap_servers="fake"), group="fanout", retry=retry)
        self.fanout = Fanout(self.consumer, self.processor, EngineProbes({}))  # type: ignore[arg-type]

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Run; stop when there is nothing to read and the condition holds."""
        deadline = monotonic() + 10

        def stop_if_done() -> None:
            if condition() or monotonic() > deadline:
                self.fanout.stop()

        self.kafka.on_empty = stop_if_done
        self.fanout.run()
        assert condition()
        assert self.kafka.is_closed


def at(partition: int, offset: int) -> Record:
    return replace(persisted(offset, chat=f"chat{partition}"), partition=partition)


def failing_first(attempts: int, error: Exception) -> Callable[[Sequence[Record]], Exception | None]:
    left = iter(range(attempts))
    return lambda _: error if next(left, None) is not None else None


ERRORS = [
    StoreUnavailable("away"),
    OutOfMemoryError("OOM command not allowed"),
    ReadOnlyError("READONLY You can't write against a read only replica."),
    BusyLoadingError("LOADING"),
    NoScriptError("NOSCRIPT"),
    TimeoutError(),
    ZeroDivisionError(),
]


class TestFanout:
    @pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
    def test_whatever_fails_is_retried_until_it_succeeds_and_its_offsets_are_stored_after_that(
        self, error: Exception, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        batch = [at(0, 1), at(0, 2), at(1, 1)]
        worker = Worker(monkeypatch, batch, failing_first(5, error))
        skipped = EVENTS_SKIPPED._value.get()
        worker.run_until(lambda: len(worker.processor.processed) == 3)
        assert all(record in worker.processor.processed for record in batch)
        assert worker.kafka.stored == {0: 3, 1: 2}
        assert EVENTS_SKIPPED._value.get() == skipped

    def test_stopped_while_an_engine_is_away_it_stores_no_offsets(self, monkeypatch: pytest.MonkeyPatch) -> None:
        worker = Worker(monkeypatch, [at(0, 1)], lambda _: StoreUnavailable("away"))
        worker.run_until(lambda: len(worker.consumer._stalled()) == 1)
        assert worker.kafka.stored == {}

    def test_a_partition_that_fails_does_not_hold_up_the_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nor events that arrive later in other partitions; those of its own wait."""
        batch = [at(0, 1), at(1, 1), at(2, 1), at(0, 2), at(1, 2)]

        def fails(records: Sequence[Record]) -> Exception | None:
            return StoreUnavailable("throttled") if any(each.partition == 0 for each in records) else None

        worker = Worker(monkeypatch, batch, fails)
        pause, later = worker.kafka.pause, [at(0, 3), at(1, 3)]

        def pause_and_receive(partitions: list[TopicPartition]) -> None:
            pause(partitions)
            worker.kafka.queue += later
            later.clear()

        worker.kafka.pause = pause_and_receive  # type: ignore[method-assign]
        worker.run_until(lambda: len(worker.processor.processed) == 4 and bool(worker.consumer._stalled()))
        assert worker.kafka.stored == {1: 4, 2: 2}
        assert worker.kafka.paused == {0}
        assert worker.kafka.queue == [at(0, 3)]

    def test_an_event_that_always_fails_stops_its_partition_and_is_told_not_skipped(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        batch = [*(at(0, offset) for offset in range(1, 6)), at(1, 1)]

        def fails(records: Sequence[Record]) -> Exception | None:
            return ZeroDivisionError("a bug") if at(0, 3) in records else None

        worker = Worker(monkeypatch, batch, fails)
        worker.run_until(lambda: bool(worker.consumer._stalled()) and FANOUT_STALLED._value.get() == 1)
        assert worker.kafka.stored == {0: 3, 1: 2}
        with pytest.raises(StoreUnavailable, match=r"messages.persisted\[0\] waits at 3: ZeroDivisionError: a bug"):
            worker.consumer.require_progress()
        assert worker.consumer.lag() == 3
        assert "Traceback" in caplog.text

    def test_once_it_is_fixed_its_partition_goes_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        batch = [at(0, 1), at(0, 2), at(0, 3)]
        left = iter(range(10))

        def fails(records: Sequence[Record]) -> Exception | None:
            return ZeroDivisionError() if at(0, 2) in records and next(left, None) is not None else None

        worker = Worker(monkeypatch, batch, fails)
        worker.run_until(lambda: worker.processor.processed == batch and not worker.kafka.paused)
        assert worker.kafka.stored == {0: 4}
        assert FANOUT_STALLED._value.get() == 0
        worker.consumer.require_progress()

    def test_retries_are_counted_by_their_reason(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before = FANOUT_RETRIES.labels("unavailable")._value.get()
        worker = Worker(monkeypatch, [at(0, 1)], failing_first(3, StoreUnavailable("away")))
        worker.run_until(lambda: len(worker.processor.processed) == 1)
        assert FANOUT_RETRIES.labels("unavailable")._value.get() == before + 3

    def test_events_of_a_partition_that_moves_away_are_left_to_its_next_owner(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        worker = Worker(monkeypatch, [at(0, 1)], lambda _: StoreUnavailable("away"))

        def is_moved() -> bool:
            if worker.consumer._stalled():
                worker.kafka.on_revoke(None, [TopicPartition("messages.persisted", 0)])
            return not worker.kafka.queue and not worker.consumer._waiting

        worker.run_until(is_moved)
        assert (worker.kafka.stored, worker.kafka.paused) == ({}, set())

    def test_a_loop_that_stands_still_is_no_progress(self, monkeypatch: pytest.MonkeyPatch) -> None:
        worker = Worker(monkeypatch, [], lambda _: None)
        worker.consumer.require_progress()
        worker.consumer._turned_at -= MAX_IDLE_SECONDS + 1
        with pytest.raises(StoreUnavailable):
            worker.consumer.require_progress()
