"""HTTP in as few system calls as it takes: one to send, mostly one to receive, on connections that are kept.

Each system call gives the interpreter away, and in a busy process getting it back takes longer than the call. So a
request leaves in one piece and an answer is read in large ones.
"""

import asyncio
import os
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

CHUNK = 256 * 1024
# A connection that rested longer than this is looked at before it is used: the other side may have closed it.
RESTED = 1.0
END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Server:
    """Where a URL leads. TLS trusts the system's authorities, or the bundle that AWS's tools are told to use."""

    host: str
    port: int
    tls: ssl.SSLContext | None

    @classmethod
    def at(cls, url: str) -> "Server":
        parts = urlsplit(url)
        is_secure = parts.scheme == "https"
        tls = ssl.create_default_context(cafile=os.environ.get("AWS_CA_BUNDLE")) if is_secure else None
        return cls(parts.hostname or "", parts.port or (443 if is_secure else 80), tls)


class Pool:
    """At most `size` connections to one server. Thread-safe: each serves one caller at a time, others wait for it."""

    def __init__(self, url: str, *, connect_timeout: float, read_timeout: float, size: int) -> None:
        self._server = Server.at(url)
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        self._room = threading.BoundedSemaphore(size)
        self._idle: deque[Connection] = deque()

    def exchange(self, request: bytes) -> "Answer":
        """Send a whole request and return the answer. Raises `OSError`; what was sent may or may not have arrived."""
        if not self._room.acquire(timeout=self._read_timeout):
            raise TimeoutError("every connection is in use")
        try:
            connection = self._take()
            try:
                answer = connection.exchange(request)
            except BaseException:
                connection.close()
                raise
            if answer.keeps_open:
                connection.used_at = time.monotonic()
                self._idle.append(connection)
            else:
                connection.close()
            return answer
        finally:
            self._room.release()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> "Connection":
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._connect()
            if time.monotonic() - connection.used_at < RESTED or connection.is_quiet():
                return connection
            connection.close()

    def _connect(self) -> "Connection":
        server = self._server
        wire = socket.create_connection((server.host, server.port), self._connect_timeout)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if server.tls is not None:
            wire = server.tls.wrap_socket(wire, server_hostname=server.host)
        wire.settimeout(self._read_timeout)
        return Connection(wire)


class Answer:
    """One HTTP answer, whole. Its connection is kept where it is clear that nothing of the answer is left on it."""

    __slots__ = ("body", "headers", "keeps_open", "status")

    def __init__(self, head: bytes) -> None:
        status, *lines = head.decode("latin1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        self.status = int(status.split(" ", 2)[1])
        self.headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        self.keeps_open = status.startswith("HTTP/1.1") and self.headers.get("connection", "").lower() != "close"
        self.body = b""


class Connection:
    """A connection that is kept. Whatever goes wrong on it raises `OSError`, and it is used no more."""

    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire
        self.used_at = time.monotonic()

    def is_quiet(self) -> bool:
        """Whether nothing has come in unasked, which would be the other side's goodbye."""
        poll = select.poll()  # unlike `select`, for any number of descriptors
        poll.register(self._wire, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        self._wire.close()

    def exchange(self, request: bytes) -> Answer:
        self._wire.sendall(request)
        reading = read_answer()
        next(reading)
        try:
            while True:
                reading.send(self._receive())
        except StopIteration as end:
            return cast(Answer, end.value)

    def _receive(self) -> bytes:
        data = self._wire.recv(CHUNK)
        if not data:
            raise ConnectionResetError("the other side closed the connection")
        return data


def read_answer() -> Generator[None, bytes, Answer]:
    """Read one answer from the data that it is sent, piece by piece. Raises `ConnectionError` for what is not HTTP."""
    try:
        return (yield from _read_answer())
    except (ValueError, IndexError) as error:
        raise ConnectionError("the answer is not HTTP") from error


def _read_answer() -> Generator[None, bytes, Answer]:
    head, found, rest = b"", b"", b""
    while not found:
        head, found, rest = (head + (yield)).partition(END_OF_HEAD)
    answer = Answer(head)
    if "chunked" in answer.headers.get("transfer-encoding", "").lower():
        answer.body, rest = yield from _read_chunks(rest)
    else:
        size = int(answer.headers.get("content-length", "0"))
        whole = yield from _read(rest, size)
        answer.body, rest = whole[:size], whole[size:]
    answer.keeps_open = answer.keeps_open and not rest
    return answer


def _read(begun: bytes, size: int) -> Generator[None, bytes, bytes]:
    """At least `size` bytes, the first of which have come already."""
    pieces, missing = [begun], size - len(begun)
    while missing > 0:
        pieces.append((yield))
        missing -= len(pieces[-1])
    return b"".join(pieces)


def _read_chunks(data: bytes) -> Generator[None, bytes, tuple[bytes, bytes]]:
    """The body, and what came behind it."""
    pieces: list[bytes] = []
    while True:
        while b"\r\n" not in data:
            data += yield
        length, _, data = data.partition(b"\r\n")
        size = int(length.partition(b";")[0], 16)
        data = yield from _read(data, size + 2)
        if size == 0:
            return b"".join(pieces), data[2:]
        pieces.append(data[:size])
        data = data[size + 2 :]


class LoopPool:
    """The same for an event loop: connections that are kept, one request at a time on each. For its thread alone.

    It makes as many as are used at once; whoever uses it bounds that.
    """

    def __init__(self, url: str, *, connect_timeout: float, read_timeout: float) -> None:
        self._server = Server.at(url)
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        self._idle: list[LoopConnection] = []

    async def exchange(self, request: bytes) -> Answer:
        """Send a whole request and return the answer. Raises `OSError`; what was sent may or may not have arrived."""
        connection = await self._take()
        try:
            answer = await connection.exchange(request, patience=self._read_timeout)
        except BaseException:
            connection.abort()
            raise
        if answer.keeps_open:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    async def _take(self) -> "LoopConnection":
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
        async with asyncio.timeout(self._connect_timeout):
            _, made = await asyncio.get_running_loop().create_connection(
                LoopConnection, self._server.host, self._server.port, ssl=self._server.tls
            )
        return made


class LoopConnection(asyncio.Protocol):
    """A kept connection on an event loop. It is told when the other side closes, and need not look."""

    def __init__(self) -> None:
        self.is_open = False
        self._loop = asyncio.get_running_loop()
        self._reading: Generator[None, bytes, Answer] | None = None
        self._awaited: asyncio.Future[Answer] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._fail(error or ConnectionResetError("the other side closed the connection"))

    def close(self) -> None:
        self.is_open = False
        self._transport.close()

    def abort(self) -> None:
        """Close without sending what is still to be sent: nobody waits for the answer any more."""
        self.is_open = False
        self._transport.abort()

    async def exchange(self, request: bytes, *, patience: float) -> Answer:
        self._reading, self._awaited = read_answer(), self._loop.create_future()
        next(self._reading)
        self._transport.write(request)
        alarm = self._loop.call_later(patience, self._fail, TimeoutError("no answer in time"))
        try:
            return await self._awaited
        finally:
            alarm.cancel()

    def data_received(self, data: bytes) -> None:
        if self._reading is None:
            # Nobody has asked: whatever this is, it is no answer of ours.
            self.close()
            return
        try:
            self._reading.send(data)
        except StopIteration as end:
            self._reading = None
            if self._awaited is not None and not self._awaited.done():
                self._awaited.set_result(end.value)
        except ConnectionError as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._reading = None
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_exception(error if isinstance(error, OSError) else ConnectionError(str(error)))
