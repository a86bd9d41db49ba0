"""Published events, read by a plain consumer, and published after an outage of Kafka."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer

from foundation.kernel.clock import SystemClock, from_iso
from foundation.kernel.ids import ChatId
from foundation.kernel.retry import RetryPolicy
from foundation.stores.dynamodb import Database
from foundation.stores.kafka import EventProducer, KafkaOptions
from tests.doubles import halted
from tests.engines import choice
from tests.engines.choice import AnyKafka
from tests.integration.chats.services import Services

CHATS, MEMBERSHIPS = "chats.created", "memberships.changed"


def records(servers: str, key: str, count: int) -> list[tuple[str, dict[str, Any]]]:
    """The events with a key, read by a plain Kafka client, without duplicates."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"plain-{key}-{time.monotonic_ns()}",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 5,
        }
    )
    consumer.subscribe([CHATS, MEMBERSHIPS])
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    deadline = time.monotonic() + 20
    try:
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
            message = consumer.poll(0.5)
            if message is not None and message.error() is None and message.key() == key.encode():
                event = json.loads(message.value() or b"")
                found.setdefault(event["event_id"], (message.topic() or "", event))
    finally:
        consumer.close()
    return list(found.values())


@pytest.fixture
def real(database: Database, producer: EventProducer) -> Iterator[Services]:
    """The services, publishing to a real Kafka."""
    with Services(database, producer, SystemClock()).serving() as services:
        yield services


class TestInTheLog:
    def test_every_change_is_there_in_the_documented_form(self, real: Services, kafka_servers: str) -> None:
        ada, bob, cem = real.user(), real.user(), real.user()
        chat_id = ada.create_group(bob, name="Project Team").body["chat_id"]
        ada.add(chat_id, cem)
        ada.give_role(chat_id, cem, "admin")
        cem.remove(chat_id, bob)
        found = records(kafka_servers, chat_id, 4)
        for _, event in found:
            assert list(event) == ["event_type", "event_id", "event_time", "partition_key", "payload"]
            assert event["event_id"].startswith("evt_")
            assert event["partition_key"] == chat_id
            assert from_iso(event["event_time"]).tzinfo is not None
            assert event["event_time"].endswith("Z")
        created = [event for topic, event in found if topic == CHATS]
        assert [event["event_type"] for event in created] == ["ChatCreated"]
        assert created[0]["payload"] == {
            "chat_id": chat_id,
            "chat_type": "group",
            "name": "Project Team",
            "created_by": ada.user_id,
            "initial_members": [ada.user_id, bob.user_id],
        }
        changes = [event for topic, event in found if topic == MEMBERSHIPS]
        assert {event["event_type"] for event in changes} == {"MembershipChanged"}
        assert [event["payload"] for event in changes] == [
            {
                "chat_id": chat_id,
                "user_id": user.user_id,
                "change_type": change,
                "role": role,
                "changed_by": by.user_id,
                "sequence": sequence,
            }
            for sequence, (user, change, role, by) in enumerate(
                (
                    (cem, "added", "member", ada),
                    (cem, "role_changed", "admin", ada),
                    (bob, "removed", "member", cem),
                ),
                start=1,
            )
        ]

    def test_a_direct_chat_has_no_name(self, real: Services, kafka_servers: str) -> None:
        ada, bob = real.user(), real.user()
        chat_id = ada.create_direct(bob).body["chat_id"]
        [(topic, event)] = records(kafka_servers, chat_id, 1)
        assert (topic, event["payload"]["chat_type"], event["payload"]["name"]) == (CHATS, "direct", None)


class Outage:
    """Services whose Kafka can be stopped."""

    def __init__(self, database: Database, engine: AnyKafka) -> None:
        self.engine = engine
        options = KafkaOptions(bootstrap_servers=engine.endpoint, publish_timeout=0.5)
        self.producer = EventProducer(options, retry=RetryPolicy(first_pause=0.05, longest_pause=0.2))
        self.services = Services(database, self.producer, SystemClock())


@pytest.fixture
def outage(database: Database) -> Iterator[Outage]:
    engine = choice.make_kafka()
    with engine:
        outage = Outage(database, engine)
        with outage.services.serving():
            yield outage
        outage.producer.close(timeout=0.5)


class TestKafkaOutage:
    def test_the_change_stands_and_is_not_made_twice(self, outage: Outage) -> None:
        services, key = outage.services, {"Idempotency-Key": "once"}
        ada, bob, cem = services.user(), services.user(), services.user()
        outage.engine.kill()
        created = ada.create_group(bob, **key)
        added = ada.add(created.body["chat_id"], cem)
        retried = ada.create_group(bob, **key)
        direct, again = ada.create_direct(bob), bob.create_direct(ada)
        assert [answer.status for answer in (created, added, retried, direct, again)] == [201, 200, 200, 201, 200]
        assert retried.body == {**created.body, "last_sequence": 1}
        assert len(bob.get("/api/chats").body["items"]) == 2
        assert services.role_of(ChatId(created.body["chat_id"]), cem) == "member"
        assert outage.producer.close(timeout=2) == 3, "the three events were waiting"

    def test_the_events_follow_in_order_when_it_is_back(self, outage: Outage) -> None:
        ada, bob = outage.services.user(), outage.services.user()
        with halted(outage.engine.process.pid):
            chat_id = ada.create_group().body["chat_id"]
            assert ada.add(chat_id, bob).status == 200
            assert ada.give_role(chat_id, bob, "admin").status == 200
        found = [event for _, event in records(outage.engine.endpoint, chat_id, 3)]
        changes = [event["payload"].get("change_type", "created") for event in found]
        assert sorted(changes) == ["added", "created", "role_changed"]
        assert changes.index("added") < changes.index("role_changed")
