"""HTTP in as few system calls as it takes: one to send, mostly one to receive, on connections that are kept.

Each system call gives the interpreter away, and in a busy process getting it back takes longer than the call. So a
request leaves in one piece and an answer is read in large ones.
"""

import os
import select
import socket
import ssl
import threading
import time
from collections import deque
from urllib.parse import urlsplit

CHUNK = 256 * 1024
# A connection that rested longer than this is looked at before it is used: the other side may have closed it.
RESTED = 1.0
END_OF_HEAD = b"\r\n\r\n"


class Pool:
    """At most `size` connections to one server. Thread-safe: each serves one caller at a time, others wait for it."""

    def __init__(self, url: str, *, connect_timeout: float, read_timeout: float, size: int) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._tls = _trusting() if parts.scheme == "https" else None
        self._port = parts.port or (80 if self._tls is None else 443)
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
        wire = socket.create_connection((self._host, self._port), self._connect_timeout)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            wire = self._tls.wrap_socket(wire, server_hostname=self._host)
        wire.settimeout(self._read_timeout)
        return Connection(wire)


def _trusting() -> ssl.SSLContext:
    """The system's authorities, or those of the bundle that AWS's tools are told to use."""
    return ssl.create_default_context(cafile=os.environ.get("AWS_CA_BUNDLE"))


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
        try:
            return self._read_answer()
        except (ValueError, IndexError) as error:
            raise ConnectionError("the answer is not HTTP") from error

    def _read_answer(self) -> Answer:
        head, found, rest = b"", b"", b""
        while not found:
            head, found, rest = (head + self._receive()).partition(END_OF_HEAD)
        answer = Answer(head)
        if "chunked" in answer.headers.get("transfer-encoding", "").lower():
            answer.body, rest = self._read_chunks(rest)
        else:
            size = int(answer.headers.get("content-length", "0"))
            whole = self._read(rest, size)
            answer.body, rest = whole[:size], whole[size:]
        answer.keeps_open = answer.keeps_open and not rest
        return answer

    def _read(self, begun: bytes, size: int) -> bytes:
        """At least `size` bytes, the first of which have come already."""
        pieces, missing = [begun], size - len(begun)
        while missing > 0:
            pieces.append(self._receive())
            missing -= len(pieces[-1])
        return b"".join(pieces)

    def _read_chunks(self, data: bytes) -> tuple[bytes, bytes]:
        """The body, and what came behind it."""
        pieces: list[bytes] = []
        while True:
            while b"\r\n" not in data:
                data += self._receive()
            length, _, data = data.partition(b"\r\n")
            size = int(length.partition(b";")[0], 16)
            data = self._read(data, size + 2)
            if size == 0:
                return b"".join(pieces), data[2:]
            pieces.append(data[:size])
            data = data[size + 2 :]

    def _receive(self) -> bytes:
        data = self._wire.recv(CHUNK)
        if not data:
            raise ConnectionResetError("the other side closed the connection")
        return data
