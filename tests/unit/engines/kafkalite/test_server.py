"""Connections: whatever the bytes, and however they arrive."""

import asyncio
import random
from collections.abc import AsyncIterator
from unittest.mock import Mock

import pytest

from engines.kafkalite import server as server_module
from engines.kafkalite.broker import Broker
from engines.kafkalite.errors import Code
from engines.kafkalite.server import Connection, Server
from engines.kafkalite.wire import BYTE, INT, LONG, SHORT, Reader, blob, listed, text
from engines.ports import LOOPBACK, ReservedPort
from tests.unit.engines.kafkalite.batches import offsets, packed

API_VERSIONS, PRODUCE, FETCH, METADATA, JOIN, LEAVE, SYNC = 18, 0, 1, 3, 11, 13, 14
SOON = 10.0


@pytest.fixture
async def port() -> AsyncIterator[int]:
    with ReservedPort() as reserved:
        number = reserved.number
        reserved.hand_over()
        server = Server(Broker(host=LOOPBACK, port=number, topics={"news": 2}), host=LOOPBACK, port=number)
        await server.bring_up()
        yield number
        server.close()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    @classmethod
    async def at(cls, port: int) -> "Client":
        return cls(*await asyncio.open_connection(LOOPBACK, port))

    async def answer(self) -> tuple[int, bytes]:
        """The next: which request it belongs to, and what it says."""
        async with asyncio.timeout(SOON):
            size = INT.unpack(await self._reader.readexactly(4))[0]
            whole = await self._reader.readexactly(size)
        return INT.unpack_from(whole)[0], whole[4:]

    async def is_closed(self) -> bool:
        async with asyncio.timeout(SOON):
            try:
                return await self._reader.read() == b""
            except ConnectionError:
                return True


def request(key: int, version: int, number: int, body: bytes = b"") -> bytes:
    whole = SHORT.pack(key) + SHORT.pack(version) + INT.pack(number) + text("tester") + body
    return INT.pack(len(whole)) + whole


def produce(number: int, records: bytes, *, partition: int = 0, acks: int = -1) -> bytes:
    topics = listed([text("news") + listed([INT.pack(partition) + blob(records)])])
    return request(PRODUCE, 3, number, text(None) + SHORT.pack(acks) + INT.pack(1000) + topics)


def fetch(number: int, *, patience: int, offset: int = 0) -> bytes:
    topics = listed([text("news") + listed([INT.pack(0) + LONG.pack(offset) + INT.pack(1_000_000)])])
    head = INT.pack(-1) + INT.pack(patience) + INT.pack(1) + INT.pack(1_000_000) + BYTE.pack(0)
    return request(FETCH, 4, number, head + topics)


def fetched(body: bytes) -> list[int]:
    """The offsets of the batches in an answer to `fetch`."""
    return offsets(body[4 + 4 + 2 + len("news") + 4 + 4 + 2 + 8 + 8 + 4 + 4 :])


async def test_requests_one_behind_the_other_are_answered_in_order(port: int) -> None:
    client = await Client.at(port)
    client.writer.write(b"".join(request(API_VERSIONS, version, version) for version in range(4)))
    assert [(await client.answer())[0] for _ in range(4)] == [0, 1, 2, 3]


async def test_a_request_may_come_byte_by_byte(port: int) -> None:
    client = await Client.at(port)
    for byte in produce(7, packed()):
        client.writer.write(bytes([byte]))
        await asyncio.sleep(0)
    assert (await client.answer())[0] == 7


async def test_a_fetch_waits_for_news_and_what_is_behind_it_waits_too(port: int) -> None:
    consumer, producer = await Client.at(port), await Client.at(port)
    consumer.writer.write(fetch(1, patience=60_000) + request(API_VERSIONS, 0, 2))
    # Answered on another connection, so the fetch has been read.
    producer.writer.write(request(API_VERSIONS, 0, 3))
    assert (await producer.answer())[0] == 3
    producer.writer.write(produce(4, packed()))
    assert (await producer.answer())[0] == 4
    number, body = await consumer.answer()
    assert (number, fetched(body)) == (1, [0])
    assert (await consumer.answer())[0] == 2


async def test_what_nobody_wants_acknowledged_is_stored_without_an_answer(port: int) -> None:
    client = await Client.at(port)
    client.writer.write(produce(1, packed(), acks=0) + fetch(2, patience=0))
    number, body = await client.answer()
    assert (number, fetched(body)) == (2, [0])


async def test_a_client_that_leaves_while_it_waits_harms_nobody(port: int) -> None:
    leaver, client = await Client.at(port), await Client.at(port)
    leaver.writer.write(fetch(1, patience=60_000))
    leaver.writer.close()
    client.writer.write(produce(2, packed()) + fetch(3, patience=1000))
    assert [(await client.answer())[0] for _ in range(2)] == [2, 3]


async def test_a_newer_question_for_the_versions_is_answered_in_the_oldest_form(port: int) -> None:
    client = await Client.at(port)
    client.writer.write(request(API_VERSIONS, 99, 1))
    _, body = await client.answer()
    assert SHORT.unpack_from(body)[0] == 35
    assert INT.unpack_from(body, 2)[0] > 10


@pytest.mark.parametrize(
    "data",
    [
        INT.pack(-1),
        INT.pack(0),
        INT.pack(1 << 30),
        INT.pack(3) + b"abc",
        request(99, 0, 1),
        request(PRODUCE, 99, 1),
        request(METADATA, 4, 1),
        request(METADATA, 4, 1, INT.pack(1 << 30)),
        request(METADATA, 4, 1, INT.pack(-2) + bytes(10)),
        request(METADATA, 4, 1, INT.pack(1) + SHORT.pack(1000)),
        request(METADATA, 4, 1, INT.pack(1) + SHORT.pack(2) + b"\xff\xff"),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_no_request_closes_its_connection_and_no_other(port: int, data: bytes) -> None:
    witness, client = await Client.at(port), await Client.at(port)
    client.writer.write(data)
    assert await client.is_closed()
    witness.writer.write(request(API_VERSIONS, 0, 1))
    assert (await witness.answer())[0] == 1


async def test_nonsense_in_the_place_of_a_request_is_survived(port: int) -> None:
    chance = random.Random(5)
    witness = await Client.at(port)
    for number in range(300):
        client = await Client.at(port)
        body = chance.randbytes(chance.randrange(60))
        client.writer.write(
            request(chance.choice([0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 22]), chance.randrange(5), 1, body)
        )
        client.writer.close()
        witness.writer.write(request(API_VERSIONS, 0, number))
        assert (await witness.answer())[0] == number


async def joined(client: Client, member_id: str = "") -> None:
    """Ask to join a group. The answer comes when all have asked."""
    protocols = listed([text("range") + blob(b"")])
    session = INT.pack(10_000)
    client.writer.write(request(JOIN, 0, 1, text("readers") + session + text(member_id) + text("consumer") + protocols))


def joined_as(body: bytes) -> tuple[int, str]:
    """The generation and the member's id of an answer to a join."""
    reader = Reader(body)
    reader.int16()
    generation = reader.int32()
    reader.text()
    reader.text()
    return generation, reader.text()


def sync(generation: int, member_id: str) -> bytes:
    return request(SYNC, 0, 2, text("readers") + INT.pack(generation) + text(member_id) + listed([]))


async def test_who_leaves_behind_its_own_question_harms_nobody(port: int) -> None:
    """As librdkafka does it when a consumer is closed in the middle of a round."""
    leader, leaver, other = [await Client.at(port) for _ in range(3)]
    await joined(leader)
    _, name = joined_as((await leader.answer())[1])
    leader.writer.write(sync(1, name))
    await leader.answer()
    await joined(leaver)
    await joined(other)
    await asyncio.sleep(0)
    await joined(leader, name)
    generation, _ = joined_as((await leader.answer())[1])
    names = [joined_as((await client.answer())[1])[1] for client in (leaver, other)]
    leaver.writer.write(sync(generation, names[0]) + request(LEAVE, 0, 3, text("readers") + text(names[0])))
    other.writer.write(sync(generation, names[1]))
    # Asked on another connection, so both have been read.
    witness = await Client.at(port)
    witness.writer.write(request(API_VERSIONS, 0, 4))
    await witness.answer()
    leader.writer.write(sync(generation, name))
    assert [(await client.answer())[0] for client in (leader, leaver, leaver)] == [2, 2, 3]
    assert await other.answer() == (2, SHORT.pack(Code.NONE) + blob(b""))
    leader.writer.write(request(API_VERSIONS, 0, 5))
    assert (await leader.answer())[0] == 5


async def test_a_connection_that_was_on_its_way_when_the_broker_went_down_is_not_let_in(port: int) -> None:
    server = Server(Broker(host=LOOPBACK, port=port, topics={}), host=LOOPBACK, port=port)
    late, transport = Connection(Broker(host=LOOPBACK, port=port, topics={}), server), Mock(asyncio.Transport)
    late.connection_made(transport)
    transport.abort.assert_called_once()
    late.data_received(request(API_VERSIONS, 0, 1))
    transport.write.assert_not_called()
    server.close()


async def test_who_lets_too_much_wait_is_closed(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_WAITING", 1000)
    client = await Client.at(port)
    client.writer.write(fetch(1, patience=60_000) + request(API_VERSIONS, 0, 2) * 100)
    assert await client.is_closed()


async def test_a_broker_that_is_down_comes_back_with_what_it_had() -> None:
    with ReservedPort() as reserved:
        reserved.hand_over()
        number = reserved.number
        server = Server(Broker(host=LOOPBACK, port=number, topics={"news": 1}), host=LOOPBACK, port=number)
        await server.bring_up()
        before = await Client.at(number)
        before.writer.write(produce(1, packed()))
        await before.answer()
        server.take_down()
        assert await before.is_closed()
        with pytest.raises(ConnectionRefusedError):
            await Client.at(number)
        await server.bring_up()
        after = await Client.at(number)
        after.writer.write(fetch(2, patience=0))
        assert fetched((await after.answer())[1]) == [0]
        server.close()
