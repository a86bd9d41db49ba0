"""HTTP: requests in any number of pieces, responses in order, batches, timers."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from engines.dynamolite import server as server_module
from engines.dynamolite.delay import AnswerDelay
from engines.dynamolite.server import Server
from engines.dynamolite.service import HttpResponse, Service
from tests.unit.engines.dynamolite.engine import PLAIN, Engine, values

CLOSING = b"Connection: close\r\n"


class Recording(Service):
    """Records the sizes of the batches."""

    batches: list[int]

    def handle_all(self, requests: Any) -> list[HttpResponse]:
        self.batches.append(len(requests))
        return super().handle_all(requests)


@asynccontextmanager
async def serving(engine: Engine, *, delay: AnswerDelay | None = None) -> AsyncIterator[tuple[Recording, Server, int]]:
    service = Recording(engine.store)
    service.batches = []
    server = Server(service, delay=delay)
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


def transact_get(pk: str) -> bytes:
    items = [{"Get": {"TableName": PLAIN, "Key": values({"pk": pk})}}]
    return request("TransactGetItems", orjson.dumps({"TransactItems": items}))


async def read_response(reader: asyncio.StreamReader) -> tuple[int, Any]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return int(head.split()[1]), orjson.loads(await reader.readexactly(length))


async def connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


async def test_pipelined_requests_are_answered_in_order(engine: Engine) -> None:
    async with serving(engine) as (service, _, port):
        reader, writer = await connected(port)
        writer.write(put("a") + get("a") + get("b") + request("Nonsense", b"{}"))
        responses = [await read_response(reader) for _ in range(4)]
        writer.close()
    assert [status for status, _ in responses] == [200, 200, 200, 400]
    assert [body for _, body in responses[:3]] == [{}, {"Item": values({"pk": "a"})}, {}]
    assert service.batches == [4]


async def test_a_request_may_arrive_in_pieces(engine: Engine) -> None:
    async with serving(engine) as (service, _, port):
        reader, writer = await connected(port)
        for byte in put("a"):
            writer.write(bytes((byte,)))
            await writer.drain()
            await asyncio.sleep(0)
        assert await read_response(reader) == (200, {})
        writer.close()
    assert service.batches == [1]
    assert engine.find(pk="a") is not None


async def test_a_body_may_be_chunked(engine: Engine) -> None:
    body = orjson.dumps({"TableName": PLAIN, "Item": values({"pk": "a"})})
    head = b"POST / HTTP/1.1\r\nHost: here\r\nX-Amz-Target: D.PutItem\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:7], body[7:]))
    async with serving(engine) as (_, _, port):
        reader, writer = await connected(port)
        writer.write(head + chunks + b"0\r\n\r\n")
        assert await read_response(reader) == (200, {})
        writer.close()
    assert engine.find(pk="a") is not None


async def test_requests_of_one_loop_iteration_share_a_transaction(engine: Engine) -> None:
    async with serving(engine) as (service, server, _):
        connections = [server.make_connection() for _ in range(2)]
        transports = [Transport() for _ in connections]
        for connection, transport in zip(connections, transports, strict=True):
            connection.connection_made(transport)
        for connection, name in zip(connections, "ab", strict=True):
            connection.data_received(put(name))
        assert service.batches == []
        await asyncio.sleep(0)
    assert service.batches == [2]
    assert [transport.written.count(b"200 OK") for transport in transports] == [1, 1]
    assert [item["pk"] for item in engine.all()] == ["a", "b"]


async def test_a_client_that_disconnects_before_its_response_does_not_affect_others(engine: Engine) -> None:
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


async def test_a_connection_is_closed_on_request(engine: Engine) -> None:
    async with serving(engine) as (_, _, port):
        reader, writer = await connected(port)
        writer.write(get("a", CLOSING))
        assert await read_response(reader) == (200, {})
        assert await reader.read() == b""
        writer.close()


async def test_a_connection_that_does_not_speak_http_is_closed(engine: Engine) -> None:
    async with serving(engine) as (service, _, port):
        reader, writer = await connected(port)
        writer.write(b"\x16\x03\x01 garbage\r\n\r\n")
        assert await reader.read() == b""
        writer.close()
    assert service.batches == []


async def test_a_request_without_a_target_is_rejected(engine: Engine) -> None:
    async with serving(engine) as (_, _, port):
        reader, writer = await connected(port)
        writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        status, body = await read_response(reader)
        writer.close()
    assert (status, body["__type"].rpartition("#")[2]) == (400, "UnknownOperationException")


async def test_a_request_with_too_large_a_body_is_not_executed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_BODY_BYTES", 1000)
    body = orjson.dumps({"TableName": PLAIN, "Item": values({"pk": "a", "v": "x" * 2000})})
    async with serving(engine) as (service, server, _):
        connection, transport = server.make_connection(), Transport()
        connection.connection_made(transport)
        connection.data_received(request("PutItem", body)[:500])
        connection.data_received(request("PutItem", body)[500:] + put("b"))
        connection.data_received(put("c"))
        await asyncio.sleep(0)
    assert transport.is_closing()
    assert service.batches == []
    assert engine.all() == []


async def test_expired_items_are_deleted_until_none_is_left(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "EXPIRY_INTERVAL_SECONDS", 0.0)
    calls: list[int] = []
    done = asyncio.Event()

    class Expiring(Service):
        def delete_expired(self) -> int:
            calls.append(len(calls))
            if len(calls) == 1:
                raise OSError("not now")
            if len(calls) > 3:
                done.set()
            return 1

    server = Server(Expiring(engine.store))
    await asyncio.wait_for(done.wait(), timeout=5)
    server.close()


class FailingFirstCheckpoint(Service):
    """Records the times of its checkpoints, of which the first fails."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.store)
        self.checkpoints: asyncio.Queue[float] = asyncio.Queue()
        self.is_broken = True

    def checkpoint(self) -> None:
        self.checkpoints.put_nowait(asyncio.get_running_loop().time())
        if self.is_broken:
            self.is_broken = False
            raise OSError("not now")
        super().checkpoint()


async def test_an_idle_server_makes_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = Engine(tmp_path / "file")
    engine.create_tables()
    monkeypatch.setattr(server_module, "IDLE_SECONDS", idle := 0.05)
    loop, service = asyncio.get_running_loop(), FailingFirstCheckpoint(engine)
    server = Server(service)
    connection = server.make_connection()
    connection.connection_made(Transport())
    epochs = [engine.store._epoch()]
    for number in range(2):
        sent_at = loop.time()
        connection.data_received(put(str(number)))
        checkpoint_at = await asyncio.wait_for(service.checkpoints.get(), timeout=5)
        assert checkpoint_at - sent_at > idle * 0.9
        epochs.append(engine.store._epoch())
    assert "The checkpoint failed" in caplog.text
    assert epochs[1] == epochs[0] != epochs[2], "the first failed, the second committed both writes"
    assert service.checkpoints.empty()
    server.close()
    engine.store.close()


async def test_a_request_delays_the_checkpoint(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "IDLE_SECONDS", idle := 0.05)
    loop, service = asyncio.get_running_loop(), FailingFirstCheckpoint(engine)
    server = Server(service)
    connection = server.make_connection()
    connection.connection_made(Transport())
    connection.data_received(put("first"))
    await asyncio.sleep(idle * 0.6)
    sent_at = loop.time()
    connection.data_received(put("second"))
    while (checkpoint_at := await asyncio.wait_for(service.checkpoints.get(), timeout=5)) < sent_at:
        continue  # the first checkpoint came before the second request
    assert checkpoint_at - sent_at > idle * 0.9
    server.close()


async def test_a_delayed_answer_delays_neither_its_execution_nor_the_answer_to_another(engine: Engine) -> None:
    async with serving(engine, delay=AnswerDelay(transactions=0, others=3600)) as (_, _, port):
        _, waiting = await connected(port)
        waiting.write(put("a"))
        reader, writer = await connected(port)
        found: dict[str, Any] = {}
        async with asyncio.timeout(10):
            while "Item" not in found:
                writer.write(transact_get("a"))
                status, answer = await read_response(reader)
                assert status == 200
                [found] = answer["Responses"]
        assert found["Item"] == values({"pk": "a"})
        waiting.close()
        writer.close()


async def test_delayed_answers_of_a_connection_keep_their_order(engine: Engine) -> None:
    async with serving(engine, delay=AnswerDelay(transactions=0, others=0.02)) as (_, _, port):
        reader, writer = await connected(port)
        writer.write(put("a") + transact_get("a"))
        assert await read_response(reader) == (200, {})
        assert await read_response(reader) == (200, {"Responses": [{"Item": values({"pk": "a"})}]})
        writer.close()


def test_a_delay_is_read_as_it_is_written() -> None:
    assert AnswerDelay.parse("10/4") == AnswerDelay(transactions=0.010, others=0.004)
    assert str(AnswerDelay.parse("10/4.5")) == "10/4.5"
    for text in ("10", "10/", "-1/4", "ten/4", "10/4/2"):
        with pytest.raises(ValueError, match="no delay"):
            AnswerDelay.parse(text)


async def test_an_incomplete_request_does_not_block_other_connections(engine: Engine) -> None:
    async with serving(engine) as (_, _, port):
        with socket.create_connection(("127.0.0.1", port)) as idle:
            idle.sendall(put("half")[:40])
            reader, writer = await connected(port)
            writer.write(get("a"))
            assert await read_response(reader) == (200, {})
            writer.close()


class Transport(asyncio.Transport):
    """Records what a connection writes."""

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
