"""Clients that flood a socket, open too many, or send a malformed handshake: others are served, nothing is logged."""

import asyncio
import base64
import os
import socket
import struct
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from websockets.asyncio.client import connect

from engines.ports import LOOPBACK
from foundation.server.extension import FRAME_BURST, FRAME_RATE
from tests.e2e.sockets import Socket, eventually, opened, together
from tests.e2e.system import System, Web

PING, PONG, FRAGMENT, CONTINUATION, TEXT, CLOSE = 0x89, 0x8A, 0x01, 0x00, 0x81, 0x88
MASK = bytes(4)
CHUNK = 4_096
MAX_CONNECTIONS = 3
SEND_BUFFER = 64 * 1024
STALLED = 3.0


@pytest.fixture(scope="module", params=["fast", "plain"])
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    settings = {"FAST_SOCKETS": "1" if request.param == "fast" else "0"}
    settings["MAX_CONNECTIONS_PER_USER"] = str(MAX_CONNECTIONS)
    with System(tmp_path_factory.mktemp(request.param), settings=settings) as system:
        yield system
    system.require_no_failures()


@pytest.fixture
def web(system: System) -> Web:
    return system.webs[0]


def frame(first: int, payload: bytes = b"") -> bytes:
    return bytes((first, 0x80 | len(payload))) + MASK + payload


class RawSocket:
    """A WebSocket by hand, which counts the bytes that the server has taken."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def flood(self, data: bytes, *, limit: int) -> int:
        """Write until the server takes no more, or has taken the limit; how many bytes that were."""
        taken = 0
        while taken < limit:
            self._writer.write(data)
            try:
                async with asyncio.timeout(STALLED):
                    await self._writer.drain()
            except (TimeoutError, ConnectionError):
                break
            taken += len(data)
        return taken

    async def ended(self) -> None:
        """Read until the server ends the connection."""
        async with asyncio.timeout(20):
            await self.discard()

    async def discard(self) -> None:
        with suppress(ConnectionError):
            while await self._reader.read(65_536):
                pass

    async def read(self) -> bytes:
        return await self._reader.read(65_536)

    async def count(self, text: bytes, *, seconds: float) -> int:
        """How often this text arrives."""
        received = b""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while data := await self.read():
                    received += data
        return received.count(text)


@asynccontextmanager
async def raw_socket(web: Web, *headers: str) -> AsyncIterator[RawSocket]:
    """Send a handshake with these headers; its answer is not read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    connection.connect((LOOPBACK, web.port))
    connection.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=connection)
    key = base64.b64encode(os.urandom(16)).decode()
    lines = ["GET /ws HTTP/1.1", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
    if not any(line.lower().startswith("host:") for line in headers):
        lines.append(f"Host: {LOOPBACK}:{web.port}")
    request = "\r\n".join([*lines, f"Sec-WebSocket-Key: {key}", *headers, "", ""])
    writer.write(request.encode("latin1"))
    await writer.drain()
    try:
        yield RawSocket(reader, writer)
    finally:
        writer.transport.abort()


FLOODS = {
    "pings": frame(PING, b"x"),
    "pongs": frame(PONG),
    "empty continuations": frame(CONTINUATION),
    "heartbeats": frame(TEXT, b'{"type":"heartbeat"}'),
}
# Much more than the buffers of both sides hold and the pace lets through meanwhile.
LIMIT = 4 * 1024 * 1024


class TestFloods:
    @pytest.mark.parametrize("flood", FLOODS)
    async def test_a_client_over_the_pace_is_not_read_and_others_are_served(
        self, system: System, web: Web, flood: str
    ) -> None:
        device, (one, other) = system.user(), system.users(2)
        chat = system.direct_chat(one, other)
        data = FLOODS[flood] * (CHUNK // len(FLOODS[flood]))
        async with raw_socket(web, f"Authorization: Bearer {device.token}") as abuser, opened(web, one) as member:
            await abuser.read()
            if flood == "empty continuations":
                await abuser.flood(frame(FRAGMENT), limit=1)
            reading = asyncio.ensure_future(abuser.discard())
            flooding = asyncio.ensure_future(abuser.flood(data, limit=LIMIT))
            for number in range(20):
                await member.send(chat, f"{number}")
            assert await flooding < LIMIT
            reading.cancel()

    async def test_nor_is_one_whose_token_is_bad_and_its_connection_ends(self, system: System, web: Web) -> None:
        async with raw_socket(web, "Authorization: Bearer nonsense") as abuser:
            assert await abuser.flood(FLOODS["pings"] * 500, limit=LIMIT) < LIMIT
            await abuser.ended()

    async def test_a_client_that_does_not_read_its_pongs_gets_no_more_and_can_close(
        self, system: System, web: Web
    ) -> None:
        def connections() -> float:
            return web.metric("parley_gateway_connections")

        device = system.user()
        # The abusers of the tests before are noticed to have gone only when they are read from again.
        await eventually(lambda: connections() == 0)
        async with raw_socket(web, f"Authorization: Bearer {device.token}") as abuser:
            await eventually(lambda: connections() == 1)
            await abuser.flood(frame(PING, b"x" * 125), limit=20_000)
            await abuser.flood(frame(CLOSE, struct.pack("!H", 1000)), limit=1)
            await abuser.ended()
        await eventually(lambda: connections() == 0)


class TestManySockets:
    async def test_those_of_a_user_are_read_no_faster_together_than_four(self, system: System, web: Web) -> None:
        device, heartbeats, answered = system.user(), FLOODS["heartbeats"] * 3_000, 0
        started = time.monotonic()
        for _ in range(12):
            async with raw_socket(web, f"Authorization: Bearer {device.token}") as abuser:
                await abuser.read()
                flooding = asyncio.ensure_future(abuser.flood(heartbeats, limit=1))
                answered += await abuser.count(b"heartbeat_ack", seconds=0.3)
                flooding.cancel()
        assert answered < 4 * (FRAME_BURST + FRAME_RATE * (time.monotonic() - started))


class TestConnections:
    async def test_one_more_than_a_user_may_have_is_closed_with_4429(self, system: System, web: Web) -> None:
        device, other = system.users(2)
        async with AsyncExitStack() as stack:
            sockets = [await stack.enter_async_context(opened(web, device)) for _ in range(MAX_CONNECTIONS)]
            async with connect(web.socket_url, additional_headers=device.headers) as connection:
                assert await Socket(connection).closed_with() == 4429
            async with opened(web, other):
                await together(*(each.catch_up_with_server() for each in sockets))

        async def is_free() -> bool:
            async with connect(web.socket_url, additional_headers=device.headers) as connection:
                return '"connected"' in str(await connection.recv())

        assert await is_free()


class TestSyncs:
    async def test_many_windows_of_one_member_do_not_keep_another_waiting(self, system: System, web: Web) -> None:
        """The greedy member's last answer comes after another's, who asks later."""
        greedy, other = system.users(2)
        chat = system.direct_chat(greedy, other)
        async with opened(web, greedy) as floods, opened(web, other) as member:
            for number in range(100):
                await floods.send(chat, f"{number}")
            for number in range(500):
                await floods.write(
                    "sync_request", chat_id=chat, last_acked_sequence=number % 100, limit=number // 100 + 1
                )
            await member.sync(chat)
            await floods.receive_until(
                lambda: sum(each["type"] == "sync_batch" for each in floods.frames) == 500, within=60
            )


MALFORMED = [
    "Origin: http://[::1",
    "Origin: \xff\xfe",
    "Origin: https://user@127.0.0.1",
    "Host: [::1",
    "Host: a b",
    "Host: 127.0.0.1:port",
    "Sec-WebSocket-Protocol: \xff",
    "X-\xe9: 1",
]


class TestMalformedHandshakes:
    @pytest.mark.parametrize("header", MALFORMED)
    async def test_they_are_refused_without_a_traceback(self, system: System, web: Web, header: str) -> None:
        device = system.user()
        async with raw_socket(web, f"Authorization: Bearer {device.token}", header) as raw:
            status = (await raw.read()).split()[1]
            await raw.ended()
        assert status in (b"400", b"403")
        async with opened(web, device) as other:
            await other.catch_up_with_server()
        assert web.failures == []

    async def test_a_host_that_is_not_ours_is_no_ones_own_origin(self, system: System, web: Web) -> None:
        headers = (
            f"Authorization: Bearer {system.user().token}",
            "Host: rebound.example",
            "Origin: http://rebound.example",
        )
        async with raw_socket(web, *headers) as raw:
            assert (await raw.read()).split()[1] == b"403"
