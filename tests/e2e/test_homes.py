"""Chats have homes among several `web` processes: order in Kafka, order of a connection, and homes that are lost."""

import asyncio
import itertools
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import cast

import pytest
from websockets.exceptions import ConnectionClosed

from foundation.kernel.events import Event
from foundation.kernel.ids import ChatId
from foundation.stores.kafka import EventConsumer, KafkaOptions
from messaging.services.homes import LIST_TTL, Homes, gateway_of
from messaging.stores.homes import KEY
from tests.e2e.sockets import Socket, eventually, opened
from tests.e2e.system import Device, System, Web

MESSAGES = 10_000
IN_FLIGHT = 40


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Three `web` processes; each test leaves them as they were."""
    with System(tmp_path_factory.mktemp("homes"), webs=3) as system:
        yield system
        system.require_no_failures()


async def homes_agree(system: System, webs: Sequence[Web]) -> None:
    await eventually(lambda: all(web.metric("parley_homes") == len(webs) for web in webs))


def handed(webs: Sequence[Web]) -> float:
    return sum(web.metric('parley_messages_by_path_total{path="handed",reason=""}') for web in webs)


def taken_back(webs: Sequence[Web]) -> float:
    """Messages that were handed over to nobody, and committed by the process that had them."""
    return sum(web.metric('parley_messages_by_path_total{path="fallback",reason="unreachable"}') for web in webs)


def changes_of_homes(webs: Sequence[Web]) -> list[float]:
    return [web.metric("parley_homes_changes_total") for web in webs]


class Stream:
    """A connection that sends into chats without waiting, and never sends anything again.

    `sent` and `acknowledged` hold the numbers of the messages by chat; the latter with their sequences.
    """

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._numbers = itertools.count()
        self._room = asyncio.Semaphore(IN_FLIGHT)
        self.sent: dict[ChatId, list[str]] = defaultdict(list)
        self.acknowledged: dict[ChatId, dict[str, int]] = defaultdict(dict)
        self._reading = asyncio.create_task(self._read())

    async def send(self, chat: ChatId) -> None:
        await self._room.acquire()
        name = f"{id(self)}-{next(self._numbers)}"
        self.sent[chat].append(name)
        await self._socket.write("send_message", client_message_id=name, chat_id=chat, content=name)

    async def send_until(self, done: asyncio.Event, chats: Sequence[ChatId], *, pause: float = 0.01) -> None:
        for chat in itertools.cycle(chats):
            if done.is_set():
                return
            await self.send(chat)
            await asyncio.sleep(pause)

    async def _read(self) -> None:
        while True:
            try:
                frame = json.loads(await self._socket.connection.recv())
            except ConnectionClosed:
                return
            assert frame["type"] != "error", frame
            if frame["type"] == "ack":
                self._room.release()
                assert not frame["duplicate"]
                self.acknowledged[ChatId(frame["chat_id"])][frame["client_message_id"]] = frame["sequence"]

    async def everything_acknowledged(self, *, within: float = 30.0) -> None:
        """Every message has its answer, and those of one chat ascending sequences in the order in which they left."""
        async with asyncio.timeout(within):
            while sum(map(len, self.acknowledged.values())) < sum(map(len, self.sent.values())):
                if self._reading.done():
                    self._reading.result()
                await asyncio.sleep(0.01)
        for chat, names in self.sent.items():
            sequences = [self.acknowledged[chat][name] for name in names]
            assert sequences == sorted(sequences)

    def close(self) -> None:
        self._reading.cancel()


@asynccontextmanager
async def streams(
    system: System, webs: Sequence[Web], *, chats: int
) -> AsyncIterator[tuple[list[Stream], list[ChatId]]]:
    """A connection to each process, and groups of all their users."""
    members = system.users(len(webs))
    groups = [system.group(members[0], members[1:]) for _ in range(chats)]
    async with AsyncExitStack() as stack:
        sockets = [
            await stack.enter_async_context(opened(web, member)) for web, member in zip(webs, members, strict=True)
        ]
        running = [Stream(socket) for socket in sockets]
        yield running, groups
        for stream in running:
            stream.close()


def require_dense(system: System, chats: Sequence[ChatId], running: Sequence[Stream]) -> None:
    """The chats hold what was acknowledged, once each, and nothing else."""
    for chat in chats:
        stored = {message.client_message_id: message.sequence for message in system.stored(chat)}
        acknowledged = {name: at for stream in running for name, at in stream.acknowledged[chat].items()}
        assert stored == acknowledged
        assert sorted(stored.values()) == list(range(1, len(stored) + 1))


class TestOrder:
    @pytest.mark.parametrize("count", [2, 3])
    async def test_a_plain_consumer_sees_every_chat_in_the_order_of_its_sequences(
        self, shared: System, count: int
    ) -> None:
        webs = shared.webs[:count]
        if count == 2:
            shared.webs[2].terminate()
            shared.webs[2].wait()
        await homes_agree(shared, webs)
        before = handed(webs)
        async with streams(shared, webs, chats=8) as (running, chats):

            async def send_share(stream: Stream) -> None:
                for chat in itertools.islice(itertools.cycle(chats), MESSAGES // count):
                    await stream.send(chat)

            await asyncio.gather(*map(send_share, running))
            for stream in running:
                await stream.everything_acknowledged(within=60)
        require_dense(shared, chats, running)
        assert handed(webs) - before > MESSAGES / 4
        for chat, sequences in (await asyncio.to_thread(first_occurrences, shared, chats)).items():
            assert sequences == sorted(sequences), chat
        if count == 2:
            shared.webs[2].restart()
            shared.webs[2].wait_until_ready()

    async def test_a_connections_messages_keep_their_order_while_homes_move_every_second(self, shared: System) -> None:
        """Names of nobody come and go in the list, and names of processes are removed from it."""
        redis, webs = shared.redis_client, shared.webs
        await homes_agree(shared, webs)
        before = (handed(webs), taken_back(webs), changes_of_homes(webs))
        async with streams(shared, webs, chats=6) as (running, chats):
            done = asyncio.Event()
            sending = [asyncio.create_task(stream.send_until(done, chats)) for stream in running]
            for turn in range(5):
                listed = names_in_list(shared)
                redis.zrem(KEY, listed[turn % len(listed)])
                seconds, microseconds = redis.time()
                redis.zadd(KEY, {ghost_for(chats[turn], listed): seconds + microseconds / 1e6 - LIST_TTL / 2})
                await asyncio.sleep(1.0)
            done.set()
            await asyncio.gather(*sending)
            for stream in running:
                await stream.everything_acknowledged()
        require_dense(shared, chats, running)
        assert handed(webs) > before[0]
        assert taken_back(webs) > before[1]
        assert all(now > then for now, then in zip(changes_of_homes(webs), before[2], strict=True))


def ghost_for(chat: ChatId, listed: Sequence[str]) -> str:
    """A name of nobody that is the chat's home while it is listed.

    Of a key that is known, so that drafts are handed over to it.
    """
    key = listed[0].rpartition("-")[2]
    ghosts = (f"gw-ghost{number}:0-{key}" for number in itertools.count())
    return next(ghost for ghost in ghosts if home_among([*listed, ghost], chat) == gateway_of(ghost))


def first_occurrences(system: System, chats: Sequence[ChatId]) -> dict[ChatId, list[int]]:
    """The chats' sequences in Kafka, without repetitions, read until all are there."""
    expected = sum(system.counters.find(chat) or 0 for chat in chats)
    consumer = EventConsumer(
        KafkaOptions(bootstrap_servers=system.kafka.endpoint), group=f"order-{chats[0]}", topics=["messages.persisted"]
    )
    found: dict[ChatId, dict[int, None]] = {chat: {} for chat in chats}
    try:
        while sum(map(len, found.values())) < expected:
            records = consumer.read(timeout=20.0)
            assert records, "events are missing"
            for record in records:
                payload = Event.decode(record.value).payload
                if payload["chat_id"] in found:
                    found[payload["chat_id"]].setdefault(payload["sequence"])
    finally:
        consumer.close()
    return {chat: list(sequences) for chat, sequences in found.items()}


class TestALostHome:
    """Connections to the other processes get an answer to everything, and need to send nothing again."""

    async def during(
        self, system: System, lose: Callable[[Web], None], restore: Callable[[Web], None], *, seconds: float
    ) -> None:
        lost, others = system.webs[2], system.webs[:2]
        await homes_agree(system, system.webs)
        async with streams(system, others, chats=16) as (running, chats):
            gateway_id = await gateway_id_of(lost, system.user())
            assert any(home_of(system, chat) == gateway_id for chat in chats)
            done = asyncio.Event()
            sending = [asyncio.create_task(stream.send_until(done, chats)) for stream in running]
            await eventually(lambda: all(len(stream.acknowledged) == len(chats) for stream in running))
            lose(lost)
            await asyncio.sleep(seconds)
            restore(lost)
            lost.wait_until_ready()
            await homes_agree(system, system.webs)
            done.set()
            await asyncio.gather(*sending)
            for stream in running:
                await stream.everything_acknowledged()
        require_dense(system, chats, running)

    async def test_killed_while_it_holds_drafts(self, shared: System) -> None:
        await self.during(shared, Web.kill, Web.restart, seconds=LIST_TTL)

    async def test_paused_for_ten_seconds(self, shared: System) -> None:
        await self.during(shared, Web.freeze, Web.thaw, seconds=10.0)


async def gateway_id_of(web: Web, device: Device) -> str:
    async with opened(web, device) as socket:
        return str(socket.frames[0]["connection_id"]).partition(".")[0]


def names_in_list(system: System) -> list[str]:
    names = cast("list[bytes]", system.redis_client.zrange(KEY, 0, -1))
    return [name.decode() for name in names]


def home_of(system: System, chat: ChatId) -> str:
    """The gateway id of the chat's home, by the list in Redis."""
    return home_among(names_in_list(system), chat)


def home_among(names: Sequence[str], chat: ChatId) -> str:
    homes = Homes(monotonic=lambda: 0.0)
    homes.update(names[0], names, at=0.0)
    return gateway_of(homes.find_home(chat) or "")
