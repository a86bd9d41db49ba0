"""HTTP: requests however they arrive, answers in order."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from engines.dynamolite import server as server_module
from engines.dynamolite.server import Server
from engines.dynamolite.service import Answered, Service
from tests.unit.engines.dynamolite.engine import PLAIN, Engine, values

CLOSING = b"Connection: close\r\n"


class Recording(Service):
    """Remembers how requests came together."""

    groups: list[int]

    def answer_all(self, asked: Any) -> list[Answered]:
        self.groups.append(len(asked))
        return super().answer_all(asked)


@asynccontextmanager
async def serving(engine: Engine) -> AsyncIterator[tuple[Recording, Server, int]]:
    service = Recording(engine.store)
    service.groups = []
    server = Server(service)
    listener = await asyncio.get_running_loop().create_server(server.make_connection, "127.0.0.1", 0)
    try:
        yield service, server, listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        server.close()


def request(operation: str, body: bytes, extra: bytes = b"") -> bytes:
    head = b"POST / HTTP/1.1\r\nHost: here\r\nX-Amz-Target: DynamoDB_20120810.%s\r\n%sContent-Length: %d\r\n\r\n"
    return head % (operation.encode(), extra, len(body)) + body


def put(pk: str, extra: bytes = b"") -> bytes:
    body = {"TableName": PLAIN, "Item": values({"pk": pk}), "ReturnValues": "ALL_OLD"}
    return request("PutItem", orjson.dumps(body), extra)


def get(pk: str, extra: bytes = b"") -> bytes:
    return request("GetItem", orjson.dumps({"TableName": PLAIN, "Key": values({"pk": pk})}), extra)


async def answer(reader: asyncio.StreamReader) -> tuple[int, Any]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return int(head.split()[1]), orjson.loads(await reader.readexactly(length))


async def connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


async def test_requests_one_behind_the_other_are_answered_in_order(engine: Engine) -> None:
    async with serving(engine) as (service, _, port):
        reader, writer = await connected(port)
        writer.write(put("a") + get("a") + get("b") + request("Nonsense", b"{}"))
        answers = [await answer(reader) for _ in range(4)]
        writer.close()
    assert [status for status, _ in answers] == [200, 200, 200, 400]
    assert [body for _, body in answers[:3]] == [{}, {"Item": values({"pk": "a"})}, {}]
    assert service.groups == [4]


async def test_a_request_may_come_in_pieces(engine: Engine) -> None:
    async with serving(engine) as (service, _, port):
        reader, writer = await connected(port)
        for byte in put("a"):
            writer.write(bytes((byte,)))
            await writer.drain()
            await asyncio.sleep(0)
        assert await answer(reader) == (200, {})
        writer.close()
    assert service.groups == [1]
    assert engine.find(pk="a") is not None


async def test_a_body_may_come_in_chunks(engine: Engine) -> None:
    body = orjson.dumps({"TableName": PLAIN, "Item": values({"pk": "a"})})
    head = b"POST / HTTP/1.1\r\nHost: here\r\nX-Amz-Target: D.PutItem\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:7], body[7:]))
    async with serving(engine) as (_, _, port):
        reader, writer = await connected(port)
        writer.write(head + chunks + b"0\r\n\r\n")
        assert await answer(reader) == (200, {})
        writer.close()
    assert engine.find(pk="a") is not None


async def test_connections_that_ask_in_one_turn_share_a_transaction(engine: Engine) -> None:
    async with serving(engine) as (service, server, _):
        connections = [server.make_connection() for _ in range(2)]
        transports = [Transport() for _ in connections]
        for connection, transport in zip(connections, transports, strict=True):
            connection.connection_made(transport)
        for connection, name in zip(connections, "ab", strict=True):
            connection.data_received(put(name))
        assert service.groups == []
        await asyncio.sleep(0)
    assert service.groups == [2]
    assert [transport.written.count(b"200 OK") for transport in transports] == [1, 1]
    assert [item["pk"] for item in engine.all()] == ["a", "b"]


async def test_a_caller_that_is_gone_before_the_answer_disturbs_nobody(engine: Engine) -> None:
    async with serving(engine) as (_, server, _):
        gone, stays = server.make_connection(), server.make_connection()
        first, second = Transport(), Transport()
        gone.connection_made(first)
        stays.connection_made(second)
        gone.data_received(put("a"))
        stays.data_received(get("a"))
        gone.connection_lost(None)
        await asyncio.sleep(0)
    assert first.written == b""
    assert second.written.endswith(orjson.dumps({"Item": values({"pk": "a"})}))


async def test_a_connection_is_closed_when_that_is_asked_for(engine: Engine) -> None:
    async with serving(engine) as (_, _, port):
        reader, writer = await connected(port)
        writer.write(get("a", CLOSING))
        assert await answer(reader) == (200, {})
        assert await reader.read() == b""
        writer.close()


async def test_what_is_not_http_is_not_listened_to(engine: Engine) -> None:
    async with serving(engine) as (service, _, port):
        reader, writer = await connected(port)
        writer.write(b"\x16\x03\x01 garbage\r\n\r\n")
        assert await reader.read() == b""
        writer.close()
    assert service.groups == []


async def test_a_request_without_a_target_is_refused(engine: Engine) -> None:
    async with serving(engine) as (_, _, port):
        reader, writer = await connected(port)
        writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        status, body = await answer(reader)
        writer.close()
    assert (status, body["__type"].rpartition("#")[2]) == (400, "UnknownOperationException")


async def test_a_body_that_is_too_long_is_not_carried_out(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "BODY_BYTES", 1000)
    body = orjson.dumps({"TableName": PLAIN, "Item": values({"pk": "a", "v": "x" * 2000})})
    async with serving(engine) as (service, server, _):
        connection, transport = server.make_connection(), Transport()
        connection.connection_made(transport)
        connection.data_received(request("PutItem", body)[:500])
        connection.data_received(request("PutItem", body)[500:] + put("b"))
        connection.data_received(put("c"))
        await asyncio.sleep(0)
    assert transport.is_closing()
    assert service.groups == []
    assert engine.all() == []


async def test_what_expired_is_swept_up_until_nothing_is_left(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SWEEP_SECONDS", 0.0)
    swept: list[int] = []
    done = asyncio.Event()

    class Sweeping(Service):
        def sweep(self) -> int:
            swept.append(len(swept))
            if len(swept) == 1:
                raise OSError("not now")
            if len(swept) > 3:
                done.set()
            return 1

    server = Server(Sweeping(engine.store))
    await asyncio.wait_for(done.wait(), timeout=5)
    server.close()


class Settling(Service):
    """Tells when it was asked to settle, and fails the first time."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.store)
        self.settled: asyncio.Queue[float] = asyncio.Queue()
        self.is_broken = True

    def settle(self) -> None:
        self.settled.put_nowait(asyncio.get_running_loop().time())
        if self.is_broken:
            self.is_broken = False
            raise OSError("not now")
        super().settle()


async def test_what_was_put_off_is_done_when_nobody_asks_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = Engine(tmp_path / "file")
    engine.create_tables()
    monkeypatch.setattr(server_module, "PAUSE_SECONDS", pause := 0.05)
    loop, service = asyncio.get_running_loop(), Settling(engine)
    server = Server(service)
    connection = server.make_connection()
    connection.connection_made(Transport())
    rounds = [engine.store._round()]
    for number in range(2):
        asked_at = loop.time()
        connection.data_received(put(str(number)))
        settled_at = await asyncio.wait_for(service.settled.get(), timeout=5)
        assert settled_at - asked_at > pause * 0.9
        rounds.append(engine.store._round())
    assert "could not be committed" in caplog.text
    assert rounds[1] == rounds[0] != rounds[2], "the first failed, the second did what both had to do"
    assert service.settled.empty()
    server.close()
    engine.store.close()


async def test_who_asks_puts_it_off(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "PAUSE_SECONDS", pause := 0.05)
    loop, service = asyncio.get_running_loop(), Settling(engine)
    server = Server(service)
    connection = server.make_connection()
    connection.connection_made(Transport())
    connection.data_received(put("first"))
    await asyncio.sleep(pause * 0.6)
    asked_at = loop.time()
    connection.data_received(put("second"))
    while (settled_at := await asyncio.wait_for(service.settled.get(), timeout=5)) < asked_at:
        continue  # this machine stood still between the two
    assert settled_at - asked_at > pause * 0.9
    server.close()


async def test_two_callers_over_sockets_do_not_wait_for_each_other(engine: Engine) -> None:
    async with serving(engine) as (_, _, port):
        with socket.create_connection(("127.0.0.1", port)) as idle:
            idle.sendall(put("half")[:40])
            reader, writer = await connected(port)
            writer.write(get("a"))
            assert await answer(reader) == (200, {})
            writer.close()


class Transport(asyncio.Transport):
    """What a connection writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self._is_closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self._is_closed = True

    def is_closing(self) -> bool:
        return self._is_closed
