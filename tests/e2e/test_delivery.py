"""Messages from one client to another, on two gateways and two fanout workers."""

import asyncio
import json
import random
import uuid
from contextlib import AsyncExitStack
from itertools import cycle, product
from typing import Any

import pytest
from confluent_kafka import Producer
from parley_client import Client

from chats.services.changes import Changes
from engines.kafka import PARTITIONS
from foundation.kernel.clock import SystemClock, to_iso
from foundation.kernel.events import TOPICS
from foundation.kernel.ids import ChatId
from messaging.domain import Draft, entry_persisted
from messaging.services.batch_reader import BatchReader
from messaging.services.committer import Committer
from messaging.services.ingest import Ingest, IngestStores
from messaging.stores.messages import IdempotencyKeyStore
from tests.e2e.doubles import LosingProducer
from tests.e2e.sockets import all_connected, eventually, is_dense, opened, together
from tests.e2e.system import Device, System


def client_of(system: System, device: Device, *, gateway: int = 0) -> Client:
    return Client(system.webs[gateway].socket_url, token=device.token)


async def enter_clients(stack: AsyncExitStack, system: System, devices: list[Device]) -> list[Client]:
    """The devices' clients, spread over the gateways, all of them connected."""
    places = cycle(range(len(system.webs[:2])))
    clients = [await stack.enter_async_context(client_of(system, device, gateway=next(places))) for device in devices]
    await all_connected(clients)
    return clients


def store_without_event(system: System, chat_id: ChatId, sender: Device, content: str) -> None:
    """Store a message whose event never reaches Kafka."""
    clock = SystemClock()
    stores = IngestStores(
        database=system.database.on_loop,
        posting=system.posting,
        changes=Changes(system.database),
        messages=system.messages,
        keys=IdempotencyKeyStore(system.database),
    )
    ingest = Ingest(stores, clock=clock)
    reader = BatchReader(stores, ingest, clock=clock)
    committer = Committer(ingest=ingest, reader=reader, producer=LosingProducer(), clock=clock, ids=system.ids)
    draft = Draft(chat_id=chat_id, sender_id=sender.user_id, client_message_id=str(uuid.uuid4()), content=content)
    system.database.loop.run(committer.send(draft))
    system.database.loop.run(committer.close())


def publish_malformed(system: System, chat_id: ChatId) -> int:
    """Publish malformed events to every partition; return how many."""
    envelope = {
        "event_id": system.ids.event(),
        "event_time": to_iso(SystemClock().now()),
        "partition_key": chat_id,
    }
    broken: list[tuple[str, Any]] = [
        ("MessagePersisted", None),
        ("MessagePersisted", {"chat_id": chat_id, "sequence": "2", "message_id": "msg_1"}),
        ("MessagePersisted", {"chat_id": chat_id, "sequence": 2**70, "message_id": "msg_1"}),
        ("MessagePersisted", {"chat_id": "", "sequence": 2, "message_id": "msg_1"}),
        ("MembershipChanged", {"chat_id": [chat_id], "user_id": "user_1"}),
        ("MembershipChanged", {"chat_id": "", "user_id": "user_1"}),
        ("ChatCreated", {"chat_id": chat_id, "initial_members": [["user_1"]]}),
        ("NothingHappened", {"chat_id": chat_id}),
    ]
    values = [json.dumps({**envelope, "event_type": kind, "payload": payload}).encode() for kind, payload in broken]
    values += [b"", b"{", b"null", bytes(range(256))]
    producer = Producer({"bootstrap.servers": system.kafka.endpoint})
    for topic, partition, value in product(TOPICS, range(PARTITIONS), values):
        producer.produce(topic, value, partition=partition)
    assert producer.flush(20) == 0
    return len(TOPICS) * PARTITIONS * len(values)


class TestTwoPeople:
    async def test_they_log_in_by_phone_and_chat(self, system: System) -> None:
        ada, bob = system.log_in(), system.log_in()
        async with client_of(system, ada) as ada_client, client_of(system, bob, gateway=1) as bob_client:
            await all_connected([ada_client, bob_client])
            chat = system.direct_chat(ada, bob)
            await eventually(lambda: bool(bob_client.notices))
            assert (bob_client.notices[0]["type"], bob_client.notices[0]["chat_id"]) == ("chat_created", chat)

            first = await ada_client.send(chat, "hello Bob")
            assert (await bob_client.read(1))[0]["content"] == "hello Bob"
            second = await bob_client.send(chat, "hello Ada")
            shown = await ada_client.read(2)

        assert [message["content"] for message in shown] == ["hello Bob", "hello Ada"]
        assert [first["sequence"], second["sequence"]] == [1, 2]
        assert (first["duplicate"], second["duplicate"]) == (False, False)

    async def test_what_one_connection_sends_keeps_its_order(self, system: System) -> None:
        ada, bob = system.users(2)
        chat = system.direct_chat(ada, bob)
        async with client_of(system, ada) as ada_client, client_of(system, bob, gateway=1) as bob_client:
            await all_connected([ada_client, bob_client])
            acks = await together(*(ada_client.send(chat, f"{number}") for number in range(200)))
            shown = await bob_client.read(200)
        assert [ack["sequence"] for ack in acks] == list(range(1, 201))
        assert [message["content"] for message in shown] == [f"{number}" for number in range(200)]

    async def test_unread_messages_are_counted_and_reading_takes_them_off(self, system: System) -> None:
        ada, bob = system.users(2)
        chat = system.direct_chat(ada, bob)
        async with client_of(system, ada) as ada_client:
            await ada_client.connected.wait()
            for number in range(3):
                await ada_client.send(chat, f"{number}")

        def unread() -> list[int]:
            return [item["unread_count"] for item in system.rest(bob, "GET", "/api/chats")["items"]]

        assert unread() == [3]
        async with client_of(system, bob) as bob_client:
            bob_client.follow(chat)
            await bob_client.read(3)
            await eventually(lambda: system.watermark(bob.user_id, chat) == 3)
            assert unread() == [3]
            bob_client.mark_read(chat, 3)
            await eventually(lambda: unread() == [0])


class TestThreeDevices:
    async def test_the_others_get_a_message_and_the_sending_connection_only_its_ack(self, system: System) -> None:
        phone, friend = system.users(2)
        tablet, laptop = system.another_device(phone), system.another_device(phone)
        chat = system.direct_chat(phone, friend)
        here, there = system.webs[:2]
        async with (
            opened(here, phone) as sending,
            opened(here, tablet) as beside,
            opened(there, laptop) as elsewhere,
            opened(there, friend) as theirs,
        ):
            await sending.send(chat, "from my phone")
            for socket in (beside, elsewhere, theirs):
                message = await socket.receive("message")
                assert (message["content"], message["sender_id"]) == ("from my phone", phone.user_id)
            # The answer passes through the fanout behind it, so whatever was pushed of the first is here as well.
            await theirs.send(chat, "an answer")
            await sending.receive("message")
        assert [message["content"] for message in sending.messages] == ["an answer"]


class TestAGroup:
    async def test_two_hundred_members_show_the_same(self, system: System) -> None:
        members = system.users(200)
        chat = system.group(members[0], members[1:])
        async with AsyncExitStack() as stack:
            clients = await enter_clients(stack, system, members)
            await together(*(clients[number].send(chat, f"from {number}") for number in range(10)))
            shown = await together(*(client.read(10) for client in clients))
        assert is_dense(shown[0])
        assert {message["content"] for message in shown[0]} == {f"from {number}" for number in range(10)}
        expected = [message["message_id"] for message in shown[0]]
        assert all([message["message_id"] for message in messages] == expected for messages in shown)

    async def test_a_removed_member_gets_nothing_more(self, system: System) -> None:
        owner, staying, leaving = system.users(3)
        chat = system.group(owner, [staying, leaving])
        # On one gateway: what the fanout hands to it for both arrives in one piece.
        web = system.webs[0]
        async with opened(web, owner) as owners, opened(web, staying) as stays, opened(web, leaving) as leaves:
            await owners.send(chat, "before")
            await together(stays.receive("message"), leaves.receive("message"))
            system.rest(owner, "DELETE", f"/api/chats/{chat}/members/{leaving.user_id}")
            notice = await leaves.receive("membership_changed")
            assert (notice["chat_id"], notice["user_id"]) == (chat, leaving.user_id)

            await owners.send(chat, "after")
            await stays.receive_until(lambda: len(stays.messages) == 3)
            await leaves.catch_up_with_server()
            await leaves.write("sync_request", chat_id=chat, last_acked_sequence=0)
            assert (await leaves.receive("error"))["code"] == "chat_not_found"
        assert [message["kind"] for message in leaves.messages] == ["message", "notice"]
        assert leaves.messages[1]["notice"]["user_ids"] == [leaving.user_id]
        assert [message["sequence"] for message in stays.messages] == [1, 2, 3]

    async def test_a_new_member_is_told_and_reads_what_was_before(self, system: System) -> None:
        owner, joining = system.users(2)
        chat = system.group(owner, [])
        async with client_of(system, owner) as owners, client_of(system, joining, gateway=1) as joins:
            await all_connected([owners, joins])
            await owners.send(chat, "before")
            system.rest(owner, "POST", f"/api/chats/{chat}/members", user_id=joining.user_id, action="add")
            await eventually(lambda: bool(joins.notices))
            await owners.send(chat, "after")
            shown = await joins.read(2)
        assert [message["content"] for message in shown] == ["before", "after"]


class TestComingBack:
    @pytest.fixture
    async def chat_with_1000(self, system: System) -> tuple[Device, ChatId]:
        """A user who was offline, and the chat that went on without."""
        ada, bob = system.users(2)
        chat = system.direct_chat(ada, bob)
        async with client_of(system, ada) as client:
            await client.connected.wait()
            await together(*(client.send(chat, f"{number}") for number in range(1, 1001)))
        return bob, chat

    async def test_a_thousand_messages_come_in_pages_of_a_hundred(
        self, system: System, chat_with_1000: tuple[Device, ChatId]
    ) -> None:
        bob, chat = chat_with_1000
        async with opened(system.webs[1], bob) as socket:
            pages = [await socket.sync(chat, after) for after in range(0, 1000, 100)]
            short = await socket.sync(chat, 990, limit=5)
        assert [len(page["messages"]) for page in pages] == [100] * 10
        assert [page["has_more"] for page in pages] == [True] * 9 + [False]
        assert {page["latest_sequence"] for page in pages} == {1000}
        assert is_dense([message for page in pages for message in page["messages"]])
        assert [message["sequence"] for message in short["messages"]] == [991, 992, 993, 994, 995]

        # While it catches up, new ones are pushed: the client shows all in order.
        ada = system.another_device(bob)
        async with client_of(system, bob) as client, client_of(system, ada) as other:
            await all_connected([client, other])
            client.follow(chat)
            await other.send(chat, "1001")
            shown = await client.read(1001)
        assert [message["content"] for message in shown] == [f"{number}" for number in range(1, 1002)]


class TestEvents:
    async def test_one_that_was_lost_before_kafka_is_filled_in_by_the_next(self, system: System) -> None:
        ada, bob = system.users(2)
        chat = system.direct_chat(ada, bob)
        async with opened(system.webs[0], ada) as sending, opened(system.webs[1], bob) as receiving:
            await sending.send(chat, "first")
            await receiving.receive_until(lambda: len(receiving.messages) == 1)
            store_without_event(system, chat, ada, "lost on its way")
            assert (await sending.send(chat, "third"))["sequence"] == 3
            await receiving.receive_until(lambda: len(receiving.messages) == 3)
        # Pushed without the client having asked for anything.
        assert [message["content"] for message in receiving.messages] == ["first", "lost on its way", "third"]
        assert is_dense(receiving.messages)

    async def test_malformed_ones_are_skipped_wherever_they_are(self, system: System) -> None:
        """Between events of the chat, in its own partition and in every other one."""
        ada, bob = system.users(2)
        chat = system.direct_chat(ada, bob)
        skipped = "parley_fanout_skipped_events_total"
        async with opened(system.webs[0], ada) as sending, opened(system.webs[1], bob) as receiving:
            await sending.send(chat, "before")
            await receiving.receive_until(lambda: len(receiving.messages) == 1)
            before = sum(fanout.metric(skipped) for fanout in system.fanouts)
            count = publish_malformed(system, chat)
            await sending.send(chat, "after")
            await receiving.receive_until(lambda: len(receiving.messages) == 2)
        assert [message["content"] for message in receiving.messages] == ["before", "after"]
        await eventually(lambda: sum(fanout.metric(skipped) for fanout in system.fanouts) >= before + count)

    async def test_one_that_comes_twice_is_shown_once(self, system: System) -> None:
        ada, bob = system.users(2)
        chat = system.direct_chat(ada, bob)
        async with client_of(system, ada) as sending, client_of(system, bob, gateway=1) as receiving:
            await all_connected([sending, receiving])
            await sending.send(chat, "once")
            again = [
                entry_persisted(message, event_id=system.ids.event(), now=SystemClock().now())
                for message in system.stored(chat) * 3
            ]
            system.producer.publish_and_wait(again)
            await sending.send(chat, "done")
            shown = await receiving.read(2)
            assert is_dense(shown)
            assert [message["content"] for message in shown] == ["once", "done"]

    async def test_a_message_sent_twice_is_stored_and_shown_once(self, system: System) -> None:
        ada, bob = system.users(2)
        chat, name = system.direct_chat(ada, bob), str(uuid.uuid4())
        async with client_of(system, ada) as sending, client_of(system, bob, gateway=1) as receiving:
            await all_connected([sending, receiving])
            first = await sending.send(chat, "once", client_message_id=name)
            second = await sending.send(chat, "once", client_message_id=name)
            await sending.send(chat, "done")
            shown = await receiving.read(2)
        assert (second["sequence"], second["message_id"]) == (first["sequence"], first["message_id"])
        assert (first["duplicate"], second["duplicate"]) == (False, True)
        assert [message["content"] for message in shown] == ["once", "done"]
        assert len(system.stored(chat)) == 2


class TestAHundredClients:
    async def test_with_random_disconnects_they_converge_to_the_same_dense_list(self, system: System) -> None:
        members = system.users(100)
        chat = system.group(members[0], members[1:])
        chance = random.Random(20260130)
        async with AsyncExitStack() as stack:
            clients = await enter_clients(stack, system, members)
            for client in clients:
                client.follow(chat)

            async def live(number: int, client: Client) -> None:
                for turn in range(3):
                    sending = asyncio.ensure_future(client.send(chat, f"{number}.{turn}"))
                    if chance.random() < 0.4:
                        client.reconnect()
                    await sending

            await together(*(live(number, client) for number, client in enumerate(clients)))
            shown = await together(*(client.read(300, within=60) for client in clients))
            assert sum(client.connections for client in clients) > 150
        assert is_dense(shown[0])
        expected = [message["message_id"] for message in shown[0]]
        assert all([message["message_id"] for message in messages] == expected for messages in shown)
        assert [message.message_id for message in system.stored(chat)] == expected
        assert {message.content for message in system.stored(chat)} == {
            f"{number}.{turn}" for number in range(100) for turn in range(3)
        }
