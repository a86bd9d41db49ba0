"""The abusers do what they are for against any server, and stop when they are told to."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from bench import abusers
from bench.abusers import ABUSERS, EMPTY_CONTINUATION, FRAGMENT, PING, Order, Target, run_abuser
from bench.driver import Signals
from bench.figures import Figures
from bench.frames import sync_request
from bench.websocket import frame
from bench.workloads.abuse import NOBODY, summarise, table

UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
DEADLINE = 10.0


class Server:
    """Answers an upgrade, reads everything, and closes a connection after `most` bytes."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._ended = asyncio.Semaphore(0)
        self.received: list[bytes] = []
        self.url = ""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Server"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"
        async with server:
            yield self

    async def wait_for(self, connections: int) -> None:
        async with asyncio.timeout(DEADLINE):
            for _ in range(connections):
                await self._ended.acquire()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"Upgrade" in head:
            writer.write(UPGRADED)
        data = head
        while len(data) < self._most and b"GET /api" not in head and (more := await reader.read(2**16)):
            data += more
        self.received.append(data)
        self._ended.release()
        writer.transport.abort()


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abusers, "PAUSE", 0.01)
    monkeypatch.setattr(abusers, "ROUND_PAUSE", 0.01)
    monkeypatch.setattr(abusers, "NICE", 0)


async def abuse(name: str, server: Server, until: Callable[[], Awaitable[None]]) -> Figures:
    signals = Signals()
    running = asyncio.create_task(run_abuser(Order(name, Target(server.url, "token", "c-1", 1)), signals))
    await signals.is_ready.wait()
    signals.started.set()
    await until()
    signals.stopped.set()
    return await asyncio.wait_for(running, DEADLINE)


class TestAbusers:
    @pytest.mark.parametrize("name", ABUSERS)
    def test_each_begins_anew_when_it_is_closed_until_it_is_stopped(self, name: str) -> None:
        async def run() -> Figures:
            async with Server(most=10_000).listening() as server:
                return await abuse(name, server, lambda: server.wait_for(8))

        # As client processes do.
        done = uvloop.run(run())
        assert done["attempts"] >= 8
        assert done["sent_mib"] > 0

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("pings", PING * 100),
            ("bad_token_pings", b"Bearer bad"),
            ("fragments", FRAGMENT + EMPTY_CONTINUATION * 100),
            ("syncs", frame(sync_request("c-1", 6)) + frame(sync_request("c-1", 7))),
            ("watches", b'"type":"watch_presence","chat_id":"c-1","user_ids":["user_00000000000000000000000000",'),
            ("forms", b'name="a"'),
            ("forms", b"a=1&" * 100),
            ("bodies", b"Content-Length: 1048576"),
            ("bodies", b"chunked"),
            ("inboxes", b"GET /api/chats HTTP/1.1"),
        ],
    )
    async def test_each_sends_its_kind(self, name: str, expected: bytes) -> None:
        async with Server(most=10_000).listening() as server:
            await abuse(name, server, lambda: server.wait_for(2))
        assert any(expected in data for data in server.received)

    async def test_attempts_are_limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(abusers, "MAX_ATTEMPTS", 3)
        async with Server(most=100).listening() as server:
            done = await abuse("pings", server, lambda: server.wait_for(3))
        assert done["attempts"] == 3

    async def test_a_server_that_is_gone_ends_nothing(self) -> None:
        server = Server(most=0)
        server.url = "ws://127.0.0.1:1/ws"
        done = await abuse("pings", server, lambda: asyncio.sleep(0.05))
        assert done["sent_mib"] == 0


class TestFigures:
    FOUND: dict[str, Figures] = {
        NOBODY: {"ack_p99_ms": 900.0, "delivery_p99_ms": 9.0, "web_peak_mib": 1.0, "web_growth_mib": 1.0, "missing": 0},
        "pings": {
            "ack_p99_ms": 50.0,
            "delivery_p99_ms": 60.0,
            "web_peak_mib": 2.0,
            "web_growth_mib": 1.0,
            "missing": 0,
        },
        "syncs": {
            "ack_p99_ms": 70.0,
            "delivery_p99_ms": 20.0,
            "web_peak_mib": 3.0,
            "web_growth_mib": 2.0,
            "missing": 4,
        },
    }

    def test_the_worst_is_of_the_abusers(self) -> None:
        figures = summarise(self.FOUND)
        assert figures["worst_ack_p99_ms"] == 70
        assert figures["worst_delivery_p99_ms"] == 60
        assert figures["worst_missing"] == 4
        assert figures["nobody_ack_p99_ms"] == 900

    def test_the_table_has_a_row_for_each(self) -> None:
        rows = table(self.FOUND)
        assert [row.split(" | ")[0] for row in rows] == ["| abuser", "| ---", "| nobody", "| pings", "| syncs"]
        assert rows[4].startswith("| syncs | 70 | 20 | 3 | 2 | 4 | – |")
