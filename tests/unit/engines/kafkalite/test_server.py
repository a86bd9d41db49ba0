"""Connections: valid and invalid requests, in one piece or byte by byte."""

import asyncio
import random
from collections.abc import AsyncIterator
from unittest.mock import Mock

import pytest

from engines.kafkalite import server as server_module
from engines.kafkalite.broker import Broker
from engines.kafkalite.errors import ErrorCode
from engines.kafkalite.server import Connection, Server
from engines.kafkalite.wire import INT8, INT16, INT32, INT64, Reader, array, blob, string
from engines.ports import LOOPBACK, ReservedPort
from tests.unit.engines.kafkalite.batches import offsets, packed

API_VERSIONS, PRODUCE, FETCH, METADATA, JOIN, LEAVE, SYNC = 18, 0, 1, 3, 11, 13, 14
TIMEOUT = 10.0  # seconds


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

    async def response(self) -> tuple[int, bytes]:
        """The correlation id and the body of the next response."""
        async with asyncio.timeout(TIMEOUT):
            size = INT32.unpack(await self._reader.readexactly(4))[0]
            whole = await self._reader.readexactly(size)
        return INT32.unpack_from(whole)[0], whole[4:]

    async def is_closed(self) -> bool:
        async with asyncio.timeout(TIMEOUT):
            try:
                return await self._reader.read() == b""
            except ConnectionError:
                return True


def request(key: int, version: int, number: int, body: bytes = b"") -> bytes:
    whole = INT16.pack(key) + INT16.pack(version) + INT32.pack(number) + string("tester") + body
    return INT32.pack(len(whole)) + whole


def produce(number: int, records: bytes, *, partition: int = 0, acks: int = -1) -> bytes:
    topics = array([string("news") + array([INT32.pack(partition) + blob(records)])])
    return request(PRODUCE, 3, number, string(None) + INT16.pack(acks) + INT32.pack(1000) + topics)


def fetch(number: int, *, max_wait: int, offset: int = 0) -> bytes:
    topics = array([string("news") + array([INT32.pack(0) + INT64.pack(offset) + INT32.pack(1_000_000)])])
    head = INT32.pack(-1) + INT32.pack(max_wait) + INT32.pack(1) + INT32.pack(1_000_000) + INT8.pack(0)
    return request(FETCH, 4, number, head + topics)


def fetched(body: bytes) -> list[int]:
    """The offsets of the batches in the response to `fetch`."""
    return offsets(body[4 + 4 + 2 + len("news") + 4 + 4 + 2 + 8 + 8 + 4 + 4 :])


async def test_pipelined_requests_are_answered_in_order(port: int) -> None:
    client = await Client.at(port)
    client.writer.write(b"".join(request(API_VERSIONS, version, version) for version in range(4)))
    assert [(await client.response())[0] for _ in range(4)] == [0, 1, 2, 3]


async def test_a_request_may_arrive_byte_by_byte(port: int) -> None:
    client = await Client.at(port)
    for byte in produce(7, packed()):
        client.writer.write(bytes([byte]))
        await asyncio.sleep(0)
    assert (await client.response())[0] == 7


async def test_a_request_after_a_waiting_fetch_waits_too(port: int) -> None:
    consumer, producer = await Client.at(port), await Client.at(port)
    consumer.writer.write(fetch(1, max_wait=60_000) + request(API_VERSIONS, 0, 2))
    # A response on another connection shows that the fetch has been read.
    producer.writer.write(request(API_VERSIONS, 0, 3))
    assert (await producer.response())[0] == 3
    producer.writer.write(produce(4, packed()))
    assert (await producer.response())[0] == 4
    number, body = await consumer.response()
    assert (number, fetched(body)) == (1, [0])
    assert (await consumer.response())[0] == 2


async def test_records_with_acks_0_are_stored_without_a_response(port: int) -> None:
    client = await Client.at(port)
    client.writer.write(produce(1, packed(), acks=0) + fetch(2, max_wait=0))
    number, body = await client.response()
    assert (number, fetched(body)) == (2, [0])


async def test_a_client_that_disconnects_while_its_fetch_waits_does_not_affect_others(port: int) -> None:
    leaver, client = await Client.at(port), await Client.at(port)
    leaver.writer.write(fetch(1, max_wait=60_000))
    leaver.writer.close()
    client.writer.write(produce(2, packed()) + fetch(3, max_wait=1000))
    assert [(await client.response())[0] for _ in range(2)] == [2, 3]


async def test_a_newer_api_versions_request_is_answered_in_version_0(port: int) -> None:
    client = await Client.at(port)
    client.writer.write(request(API_VERSIONS, 99, 1))
    _, body = await client.response()
    assert INT16.unpack_from(body)[0] == 35
    assert INT32.unpack_from(body, 2)[0] > 10


@pytest.mark.parametrize(
    "data",
    [
        INT32.pack(-1),
        INT32.pack(0),
        INT32.pack(1 << 30),
        INT32.pack(3) + b"abc",
        request(99, 0, 1),
        request(PRODUCE, 99, 1),
        request(METADATA, 4, 1),
        request(METADATA, 4, 1, INT32.pack(1 << 30)),
        request(METADATA, 4, 1, INT32.pack(-2) + bytes(10)),
        request(METADATA, 4, 1, INT32.pack(1) + INT16.pack(1000)),
        request(METADATA, 4, 1, INT32.pack(1) + INT16.pack(2) + b"\xff\xff"),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
async def test_an_invalid_request_closes_only_its_own_connection(port: int, data: bytes) -> None:
    witness, client = await Client.at(port), await Client.at(port)
    client.writer.write(data)
    assert await client.is_closed()
    witness.writer.write(request(API_VERSIONS, 0, 1))
    assert (await witness.response())[0] == 1


async def test_random_bodies_do_not_stop_the_broker(port: int) -> None:
    generator = random.Random(5)
    witness = await Client.at(port)
    for number in range(300):
        client = await Client.at(port)
        body = generator.randbytes(generator.randrange(60))
        client.writer.write(
            request(generator.choice([0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 22]), generator.randrange(5), 1, body)
        )
        client.writer.close()
        witness.writer.write(request(API_VERSIONS, 0, number))
        assert (await witness.response())[0] == number


async def send_join(client: Client, member_id: str = "") -> None:
    """Send a join request. The response arrives when all members have joined."""
    protocols = array([string("range") + blob(b"")])
    session = INT32.pack(10_000)
    client.writer.write(
        request(JOIN, 0, 1, string("readers") + session + string(member_id) + string("consumer") + protocols)
    )


def read_join(body: bytes) -> tuple[int, str]:
    """The generation and the member id in the response to a join."""
    reader = Reader(body)
    reader.int16()
    generation = reader.int32()
    reader.string()
    reader.string()
    return generation, reader.string()


def sync(generation: int, member_id: str) -> bytes:
    return request(SYNC, 0, 2, string("readers") + INT32.pack(generation) + string(member_id) + array([]))


async def test_a_leave_pipelined_after_a_sync_does_not_affect_other_members(port: int) -> None:
    """librdkafka does this when a consumer is closed during a rebalance."""
    leader, leaver, other = [await Client.at(port) for _ in range(3)]
    await send_join(leader)
    _, name = read_join((await leader.response())[1])
    leader.writer.write(sync(1, name))
    await leader.response()
    await send_join(leaver)
    await send_join(other)
    await asyncio.sleep(0)
    await send_join(leader, name)
    generation, _ = read_join((await leader.response())[1])
    names = [read_join((await client.response())[1])[1] for client in (leaver, other)]
    leaver.writer.write(sync(generation, names[0]) + request(LEAVE, 0, 3, string("readers") + string(names[0])))
    other.writer.write(sync(generation, names[1]))
    # A response on another connection shows that both have been read.
    witness = await Client.at(port)
    witness.writer.write(request(API_VERSIONS, 0, 4))
    await witness.response()
    leader.writer.write(sync(generation, name))
    assert [(await client.response())[0] for client in (leader, leaver, leaver)] == [2, 2, 3]
    assert await other.response() == (2, INT16.pack(ErrorCode.NONE) + blob(b""))
    leader.writer.write(request(API_VERSIONS, 0, 5))
    assert (await leader.response())[0] == 5


async def test_a_connection_accepted_before_the_broker_went_down_is_closed(port: int) -> None:
    server = Server(Broker(host=LOOPBACK, port=port, topics={}), host=LOOPBACK, port=port)
    late, transport = Connection(Broker(host=LOOPBACK, port=port, topics={}), server), Mock(asyncio.Transport)
    late.connection_made(transport)
    transport.abort.assert_called_once()
    late.data_received(request(API_VERSIONS, 0, 1))
    transport.write.assert_not_called()
    server.close()


async def test_a_connection_with_a_full_buffer_is_closed(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_BUFFER_BYTES", 1000)
    client = await Client.at(port)
    client.writer.write(fetch(1, max_wait=60_000) + request(API_VERSIONS, 0, 2) * 100)
    assert await client.is_closed()


async def test_a_broker_that_was_down_returns_with_its_log() -> None:
    with ReservedPort() as reserved:
        reserved.hand_over()
        number = reserved.number
        server = Server(Broker(host=LOOPBACK, port=number, topics={"news": 1}), host=LOOPBACK, port=number)
        await server.bring_up()
        before = await Client.at(number)
        before.writer.write(produce(1, packed()))
        await before.response()
        server.take_down()
        assert await before.is_closed()
        with pytest.raises(ConnectionRefusedError):
            await Client.at(number)
        await server.bring_up()
        after = await Client.at(number)
        after.writer.write(fetch(2, max_wait=0))
        assert fetched((await after.response())[1]) == [0]
        server.close()
