"""HTTP on kept connections, against a server that answers whatever the test wants, in whatever pieces."""

import asyncio
import fcntl
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from foundation.stores.dynamodb.http import END_OF_HEAD, Answer, LoopConnection, LoopPool, Pool

REQUEST = b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}"


class Server:
    """Serves one connection at a time: each request gets the next script, a list of pieces; None hangs up."""

    def __init__(self) -> None:
        self.scripts: list[list[bytes | None]] = []
        self.connections = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                wire, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            with wire:
                self._talk(wire)

    def _talk(self, wire: socket.socket) -> None:
        while self.scripts:
            received = b""
            while END_OF_HEAD + b"{}" not in received:
                data = wire.recv(4096)
                if not data:
                    return
                received += data
            for piece in self.scripts.pop(0):
                if piece is None:
                    return
                wire.sendall(piece)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


class LoopRunner:
    """The pool of an event loop, for callers without one."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._pool = LoopPool(url, connect_timeout=10.0, read_timeout=10.0)

    @property
    def _idle(self) -> list[LoopConnection]:
        return self._pool._idle

    def exchange(self, request: bytes) -> Answer:
        return self._loop.run_until_complete(self._pool.exchange(request))

    def close(self) -> None:
        self._pool.close()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


@pytest.fixture
def thread_pool(server: Server) -> Iterator[Pool]:
    pool = Pool(server.url, connect_timeout=10.0, read_timeout=10.0, size=2)
    yield pool
    pool.close()


@pytest.fixture(params=["threads", "loop"])
def pool(request: pytest.FixtureRequest, server: Server) -> Iterator[Pool | LoopRunner]:
    if request.param == "threads":
        yield request.getfixturevalue("thread_pool")
        return
    runner = LoopRunner(server.url)
    yield runner
    runner.close()


def answer(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def test_a_connection_is_kept_and_used_again(server: Server, pool: Pool | LoopRunner) -> None:
    server.scripts = [[answer(b"one")], [answer(b"two")]]
    assert [pool.exchange(REQUEST).body for _ in range(2)] == [b"one", b"two"]
    assert server.connections == 1


def test_an_answer_in_pieces_is_put_together(server: Server, pool: Pool | LoopRunner) -> None:
    server.scripts = [[b"HTTP/1.1 200", b" OK\r\nContent-Le", b"ngth: 5\r\n\r", b"\nhe", b"llo"]]
    assert pool.exchange(REQUEST).body == b"hello"


def test_chunks_are_joined(server: Server, pool: Pool | LoopRunner) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    server.scripts = [[head + b"5\r\nhel", b"lo\r\n6;x=y\r\n wor", b"ld\r\n", b"0\r\n\r\n"], [answer(b"next")]]
    assert pool.exchange(REQUEST).body == b"hello world"
    assert pool.exchange(REQUEST).body == b"next"


def test_a_server_that_says_close_is_taken_at_its_word(server: Server, pool: Pool | LoopRunner) -> None:
    closing = b"HTTP/1.1 400 Bad\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    server.scripts = [[closing, None], [answer(b"again")]]
    assert pool.exchange(REQUEST).status == 400
    assert pool.exchange(REQUEST).body == b"again"
    assert server.connections == 2


def test_a_connection_that_ended_while_it_rested_is_not_used(
    server: Server, thread_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.scripts = [[answer(b"one"), None], [answer(b"two")]]
    assert thread_pool.exchange(REQUEST).body == b"one"
    (resting,) = thread_pool._idle
    resting._wire.recv(1)  # waits for the goodbye
    resting.used_at -= 60
    assert thread_pool.exchange(REQUEST).body == b"two"


def test_a_process_with_thousands_of_sockets_looks_at_its_resting_ones_too(server: Server, thread_pool: Pool) -> None:
    server.scripts = [[answer(b"one")], [answer(b"two")]]
    assert thread_pool.exchange(REQUEST).body == b"one"
    (resting,) = thread_pool._idle
    high = fcntl.fcntl(resting._wire.fileno(), fcntl.F_DUPFD, 1500)
    resting._wire.close()
    resting._wire = socket.socket(fileno=high)
    resting._wire.settimeout(1.0)
    resting.used_at -= 60
    assert thread_pool.exchange(REQUEST).body == b"two"
    assert server.connections == 1


def test_what_comes_behind_an_answer_ends_the_connection(server: Server, pool: Pool | LoopRunner) -> None:
    server.scripts = [[answer(b"one") + b"more", None], [answer(b"two")]]
    assert [pool.exchange(REQUEST).body for _ in range(2)] == [b"one", b"two"]
    assert server.connections == 2


def test_who_finds_every_connection_in_use_for_too_long_is_told(server: Server) -> None:
    pool = Pool(server.url, connect_timeout=0.1, read_timeout=0.05, size=1)
    pool._room.acquire()
    with pytest.raises(TimeoutError):
        pool.exchange(REQUEST)


@pytest.mark.parametrize(
    "script",
    [
        [],
        [None],
        [b"HTTP/1.1 200 OK\r\n", None],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"],
        [b"not HTTP at all\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"],
    ],
)
def test_whatever_goes_wrong_is_an_os_error_and_the_connection_is_dropped(
    server: Server, pool: Pool | LoopRunner, script: list[bytes | None]
) -> None:
    server.scripts = [script, [answer(b"fine")]]
    inner = pool._pool if isinstance(pool, LoopRunner) else pool
    inner._read_timeout = 0.3
    with pytest.raises(OSError):  # noqa: PT011 - any of them
        pool.exchange(REQUEST)
    assert not pool._idle


def test_nobody_listening_is_an_os_error() -> None:
    pool = Pool("http://127.0.0.1:1", connect_timeout=0.2, read_timeout=0.2, size=1)
    with pytest.raises(OSError):  # noqa: PT011 - any of them
        pool.exchange(REQUEST)


def test_no_more_connections_than_there_is_room_for(server: Server) -> None:
    pool = Pool(server.url, connect_timeout=1.0, read_timeout=2.0, size=1)
    server.scripts = [[answer(b"x")] for _ in range(20)]
    with ThreadPoolExecutor(5) as threads:
        bodies = list(threads.map(lambda _: pool.exchange(REQUEST).body, range(20)))
    assert (bodies, server.connections) == ([b"x"] * 20, 1)
    pool.close()


def test_an_event_loop_keeps_its_connection(server: Server) -> None:
    server.scripts = [[answer(b"x")] for _ in range(6)]

    async def ask() -> list[bytes]:
        pool = LoopPool(server.url, connect_timeout=1.0, read_timeout=2.0)
        bodies = [(await pool.exchange(REQUEST)).body for _ in range(3)]
        pool.close()
        return bodies

    assert asyncio.run(ask()) == [b"x"] * 3
    assert server.connections == 1


def test_the_alarm_of_a_request_does_not_outlive_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.scripts = [[answer(b"x")]]
    alarms: list[asyncio.TimerHandle] = []

    async def ask() -> None:
        loop = asyncio.get_running_loop()
        call_later = loop.call_later

        def noted(*given: Any) -> asyncio.TimerHandle:
            alarms.append(call_later(*given))
            return alarms[-1]

        monkeypatch.setattr(loop, "call_later", noted)
        connection = await LoopPool(server.url, connect_timeout=10.0, read_timeout=10.0)._take()
        alarms.clear()
        assert (await connection.exchange(REQUEST, patience=10.0)).body == b"x"
        connection.abort()

    asyncio.run(ask())
    assert [alarm.cancelled() for alarm in alarms] == [True]


def test_nobody_listening_is_an_os_error_on_an_event_loop_too() -> None:
    pool = LoopPool("http://127.0.0.1:1", connect_timeout=0.2, read_timeout=0.2)
    with pytest.raises(OSError):  # noqa: PT011 - any of them
        asyncio.run(pool.exchange(REQUEST))
