"""Three brokers, every event on three, acknowledged by two: brokers are killed during traffic, one after the other."""

import asyncio
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from parley_client import Client

from engines.kafka import PARTITIONS
from foundation.kernel.events import MESSAGES_PERSISTED, TOPICS, Event
from foundation.kernel.ids import ChatId
from foundation.stores.kafka import EventConsumer, EventLogAdmin, KafkaOptions
from tests.doubles import eventually
from tests.e2e.sockets import all_connected, is_dense
from tests.e2e.sockets import eventually as eventually_async
from tests.e2e.system import Device, System
from tests.engines.kafka import ApacheKafka, Quorum

BROKERS = 3
GATEWAYS = ((0, 0), (1, 1), (0, 1))
# Kafka's own defaults: a dead broker is noticed after nine seconds, longer than a sender waits.
KAFKA_DEFAULTS = {"broker.session.timeout.ms": 9000, "broker.heartbeat.interval.ms": 2000}


@pytest.fixture(scope="module")
def brokers() -> Iterator[list[ApacheKafka]]:
    """The cluster, with the topics as `create_topics` makes them for production."""
    quorum = Quorum(BROKERS)
    nodes = [
        ApacheKafka(topics=(), quorum=quorum, node=node, settings=KAFKA_DEFAULTS) for node in range(1, BROKERS + 1)
    ]
    with ExitStack() as stack:
        for node in nodes:
            stack.callback(node.close)
            node.start()
        for node in nodes:
            node.wait_until_ready()
        log = EventLogAdmin(KafkaOptions(bootstrap_servers=quorum.bootstrap_servers))
        assert set(log.create_topics(partitions=PARTITIONS, replication=BROKERS)) == set(TOPICS)
        yield nodes
        for node in nodes:
            node.kill()


@pytest.fixture(scope="module")
def system(brokers: list[ApacheKafka], tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with System(tmp_path_factory.mktemp("cluster"), webs=2, fanouts=2, kafka=brokers[0]) as system:
        yield system


@pytest.fixture(scope="module")
def servers(brokers: list[ApacheKafka]) -> str:
    return brokers[0].environment()["KAFKA_BOOTSTRAP_SERVERS"]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two members of a chat of their own, each on one of the two gateways."""

    chat_id: ChatId
    members: tuple[tuple[Device, int], tuple[Device, int]]

    @property
    def on_one_gateway(self) -> bool:
        return len({gateway for _, gateway in self.members}) == 1


class Traffic:
    """Pairs, of which every member sends the next message when the last one is acknowledged.

    A third of them meet on the first gateway, a third on the second, and a third across.
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self.acknowledged: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.clients: list[Client] = []
        self.pairs = [self._pair(system, gateways) for gateways in (*GATEWAYS, *GATEWAYS)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Every member sends for as long as this lasts; then every message is acknowledged and on every client."""
        async with AsyncExitStack() as stack:
            stop = asyncio.Event()
            senders = []
            for pair in self.pairs:
                for device, gateway in pair.members:
                    client = Client(self.system.webs[gateway].socket_url, token=device.token)
                    self.clients.append(await stack.enter_async_context(client))
                    client.follow(pair.chat_id)
                    senders.append(self._send(client, pair.chat_id, stop))
            await all_connected(self.clients)
            sending = asyncio.gather(*senders)
            try:
                yield
            finally:
                stop.set()
                async with asyncio.timeout(60):
                    await sending
            await self._converge()

    async def every_chat_gets_acknowledgements(self, *, within: float = 60.0) -> None:
        """Wait until each chat has five acknowledgements more than now."""
        before = {pair.chat_id: len(self.acknowledged[pair.chat_id]) for pair in self.pairs}
        await eventually_async(
            lambda: all(len(self.acknowledged[chat_id]) >= count + 5 for chat_id, count in before.items()),
            within=within,
        )

    async def _send(self, client: Client, chat_id: str, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self.acknowledged[chat_id].append(await client.send(chat_id, str(uuid.uuid4())))

    async def _converge(self) -> None:
        """Wait until every client has what the store holds."""
        for place, client in enumerate(self.clients):
            count = len(self.system.stored(self.pairs[place // 2].chat_id))
            assert is_dense(await client.read(count, within=60))

    def _pair(self, system: System, gateways: tuple[int, int]) -> Pair:
        one, other = system.users(2)
        return Pair(system.direct_chat(one, other), ((one, gateways[0]), (other, gateways[1])))


def is_in_sync(servers: str) -> bool:
    """Whether every partition of ours has all its replicas."""
    topics = AdminClient({"bootstrap.servers": servers, "log_level": 0}).list_topics(timeout=10).topics
    return all(len(partition.isrs) == BROKERS for name in TOPICS for partition in topics[name].partitions.values())


async def until_in_sync(servers: str) -> None:
    await asyncio.to_thread(eventually, lambda: is_in_sync(servers), within=90)


def events_of(servers: str, expected: Mapping[ChatId, int]) -> dict[str, list[int]]:
    """The sequences in the log, chat by chat, once every chat has its number of different ones."""
    options = KafkaOptions(bootstrap_servers=servers)
    consumer = EventConsumer(options, group=f"audit-{uuid.uuid4()}", topics=[MESSAGES_PERSISTED])
    found: dict[str, list[int]] = defaultdict(list)

    def enough() -> bool:
        for record in consumer.read(timeout=0.5):
            found[record.key].append(Event.decode(record.value).payload["sequence"])
        return all(len(set(found[chat_id])) >= count for chat_id, count in expected.items())

    try:
        eventually(enough, within=60)
    finally:
        consumer.close()
    return found


def audit(traffic: Traffic, servers: str) -> None:
    """What was acknowledged is stored at its place and has its event; a chat's events are in order.

    The order is kept by a process for what it commits; chats across gateways have all their events, and the fanout and
    the clients put them in order (ADR-014).
    """
    stored = {pair.chat_id: traffic.system.stored(pair.chat_id) for pair in traffic.pairs}
    for chat_id, messages in stored.items():
        assert [message.sequence for message in messages] == list(range(1, len(messages) + 1))
        kept = {message.message_id: message.sequence for message in messages}
        assert {ack["message_id"]: ack["sequence"] for ack in traffic.acknowledged[chat_id]} == kept
    events = events_of(servers, {chat_id: len(messages) for chat_id, messages in stored.items()})
    for pair in traffic.pairs:
        places = list(range(1, len(stored[pair.chat_id]) + 1))
        first_seen = list(dict.fromkeys(events[pair.chat_id]))
        assert (first_seen if pair.on_one_gateway else sorted(first_seen)) == places


@pytest.mark.timeout(300)
class TestBrokersKilledDuringTraffic:
    async def test_no_acknowledged_message_lacks_its_event_and_no_event_is_out_of_order(
        self, system: System, brokers: list[ApacheKafka], servers: str
    ) -> None:
        first, second, _ = brokers
        traffic = Traffic(system)
        async with traffic.running():
            await traffic.every_chat_gets_acknowledgements()
            first.kill()
            await traffic.every_chat_gets_acknowledgements()
            first.start()
            await until_in_sync(servers)
            second.kill()
            await traffic.every_chat_gets_acknowledgements()
            second.start()
        refused = [error for client in traffic.clients for error in client.errors]
        assert [error for error in refused if not error["retryable"]] == []
        audit(traffic, servers)

    async def test_what_only_one_broker_would_hold_is_not_acknowledged_and_goes_out_when_the_others_are_back(
        self, system: System, brokers: list[ApacheKafka], servers: str
    ) -> None:
        traffic = Traffic(system)
        await until_in_sync(servers)
        async with traffic.running():
            await traffic.every_chat_gets_acknowledgements()
            for broker in brokers[1:]:
                broker.kill()
            for client in traffic.clients:
                client.errors.clear()
            await eventually_async(lambda: all(client.errors for client in traffic.clients), within=60)
            acknowledged = {chat_id: len(acks) for chat_id, acks in traffic.acknowledged.items()}
            with pytest.raises(TimeoutError):
                await traffic.every_chat_gets_acknowledgements(within=3)
            assert {chat_id: len(acks) for chat_id, acks in traffic.acknowledged.items()} == acknowledged
            for broker in brokers[1:]:
                broker.start()
            await traffic.every_chat_gets_acknowledgements(within=90)
        refused = [error for client in traffic.clients for error in client.errors]
        assert {(error["code"], error["retryable"]) for error in refused} == {("fanout_unavailable", True)}
        audit(traffic, servers)
