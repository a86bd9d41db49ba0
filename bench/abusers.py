"""Clients that try to keep a server from serving others: for G1, against the deployment on this machine only.

Each repeats one attempt, with a short pause, until it is stopped. A server that refuses or closes ends an attempt.
"""

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from urllib.parse import urlsplit

from bench.driver import Signals
from bench.figures import Figures
from bench.frames import sync_request
from bench.websocket import NO_MASK, frame

ADDRESS = "127.0.0.2"
"""Abusers connect from another address than the others, so that limits per address can tell them apart."""
NICE = 10
"""Others come first on the processors: the abuser would be on another machine."""
PAUSE, ROUND_PAUSE = 0.1, 1.0
MAX_SECONDS, MAX_ATTEMPTS = 60.0, 5_000
BLOCK_BYTES = 64 * 1024
MIB = 2**20

PING = bytes((0x89, 0x80)) + NO_MASK
FRAGMENT = bytes((0x01, 0x81)) + NO_MASK + b"{"
EMPTY_CONTINUATION = bytes((0x00, 0x80)) + NO_MASK
FORM_FIELD = b"a=1&"
FORM_PART = b'--part\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'
LOGIN_PATH, INBOX_PATH = "/api/auth/request-code", "/api/chats"
SYNC_WINDOWS = 999
WATCHED = json.dumps([f"user_{number:026}" for number in range(200)]).encode()
WATCHES = 100
PARALLEL_INBOXES = 230
BAD_TOKEN = "bad"  # noqa: S105 - no token at all


@dataclass(frozen=True, slots=True)
class Target:
    """`token` is of a member of `chat_id`. Forms are a twentieth of `body_mib`."""

    url: str
    token: str
    chat_id: str
    body_mib: int = 200


@dataclass(slots=True)
class Abuse:
    """What an abuser did: connections that it opened, and bytes that the server took."""

    target: Target
    attempts: int = 0
    sent: int = 0
    variants: Iterator[bool] = field(default_factory=lambda: cycle((True, False)))
    """For abusers that do two things in turns."""

    @asynccontextmanager
    async def connect(self) -> AsyncIterator["Connection"]:
        """Raises `OSError`."""
        parts = urlsplit(self.target.url)
        self.attempts += 1
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, local_addr=(ADDRESS, 0))
        try:
            yield Connection(self, reader, writer)
        finally:
            writer.transport.abort()

    @asynccontextmanager
    async def websocket(self, token: str) -> AsyncIterator["Connection"]:
        """Upgrade, whatever comes after it. Raises `OSError`."""
        async with self.connect() as connection:
            key = base64.b64encode(os.urandom(16)).decode()
            await connection.request(
                "GET /ws",
                "Upgrade: websocket",
                "Connection: Upgrade",
                f"Sec-WebSocket-Key: {key}",
                "Sec-WebSocket-Version: 13",
                f"Authorization: Bearer {token}",
            )
            await connection.require_upgrade()
            async with connection.dropping_answers():
                yield connection


class Connection:
    """One connection of an abuser."""

    def __init__(self, abuse: Abuse, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._abuse, self._reader, self._writer = abuse, reader, writer

    async def request(self, first: str, *headers: str) -> None:
        host = f"Host: {urlsplit(self._abuse.target.url).netloc}"
        await self.send("\r\n".join((f"{first} HTTP/1.1", host, *headers, "", "")).encode())

    async def require_upgrade(self) -> None:
        """Raises `ConnectionError`."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            raise ConnectionError("closed before the upgrade") from error
        if b" 101 " not in head.split(b"\r\n", 1)[0]:
            raise ConnectionError("refused")

    async def send(self, data: bytes) -> None:
        """Return when the server has taken most of it. Raises `ConnectionError` once the connection has ended."""
        if self._writer.is_closing():  # uvloop does not raise a ConnectionError
            raise ConnectionResetError
        self._writer.write(data)
        await self._writer.drain()
        self._abuse.sent += len(data)
        await asyncio.sleep(0)

    async def read_answer(self) -> None:
        """Read and drop everything until the server closes."""
        while await self._reader.read(BLOCK_BYTES):
            pass

    @asynccontextmanager
    async def dropping_answers(self) -> AsyncIterator["asyncio.Task[None]"]:
        """Read in the background, so that the server never waits for us. Its close ends our sends, and the task."""

        async def drop() -> None:
            with suppress(OSError):
                await self.read_answer()
            self._writer.transport.abort()

        reading = asyncio.create_task(drop())
        try:
            yield reading
        finally:
            reading.cancel()


async def pings(abuse: Abuse) -> None:
    async with abuse.websocket(abuse.target.token) as connection:
        await _repeat_frame(connection, PING)


async def bad_token_pings(abuse: Abuse) -> None:
    async with abuse.websocket(BAD_TOKEN) as connection:
        await _repeat_frame(connection, PING)


async def fragments(abuse: Abuse) -> None:
    """One message that never ends, in empty fragments: no limit of size is reached."""
    async with abuse.websocket(abuse.target.token) as connection:
        await connection.send(FRAGMENT)
        await _repeat_frame(connection, EMPTY_CONTINUATION)


async def syncs(abuse: Abuse) -> None:
    """Each request asks for another window, so that no two share a read."""
    target = abuse.target
    requests = b"".join(frame(sync_request(target.chat_id, after)) for after in range(SYNC_WINDOWS))
    async with abuse.websocket(target.token) as connection:
        while True:
            await connection.send(requests)
            await asyncio.sleep(ROUND_PAUSE)


async def watches(abuse: Abuse) -> None:
    """Each names two hundred users, whose memberships would be read strongly consistent."""
    one = b'{"type":"watch_presence","chat_id":"%b","user_ids":%b}' % (abuse.target.chat_id.encode(), WATCHED)
    requests = frame(one) * WATCHES
    async with abuse.websocket(abuse.target.token) as connection:
        while True:
            await connection.send(requests)
            await asyncio.sleep(ROUND_PAUSE)


async def forms(abuse: Abuse) -> None:
    """Multipart and URL-encoded in turns, from somebody who is not logged in."""
    is_multipart = next(abuse.variants)
    field_, kind = (
        (FORM_PART, "multipart/form-data; boundary=part")
        if is_multipart
        else (FORM_FIELD, "application/x-www-form-urlencoded")
    )
    count = abuse.target.body_mib * MIB // 20 // len(field_)
    body = field_ * count + (b"--part--\r\n" if is_multipart else b"a=1")
    async with abuse.connect() as connection:
        await connection.request(
            f"POST {LOGIN_PATH}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", "Connection: close"
        )
        async with connection.dropping_answers() as answered:
            await connection.send(body)
            await answered


async def bodies(abuse: Abuse) -> None:
    """With a declared length and in chunks, in turns, from somebody who is not logged in."""
    is_declared, size = next(abuse.variants), abuse.target.body_mib * MIB
    length = f"Content-Length: {size}" if is_declared else "Transfer-Encoding: chunked"
    block = b"0" * BLOCK_BYTES
    if not is_declared:
        block = b"%x\r\n%b\r\n" % (len(block), block)
    async with abuse.connect() as connection:
        await connection.request(f"POST {LOGIN_PATH}", "Content-Type: application/json", length, "Connection: close")
        async with connection.dropping_answers() as answered:
            for _ in range(size // BLOCK_BYTES):
                await connection.send(block)
            if not is_declared:
                await connection.send(b"0\r\n\r\n")
            await answered


async def inboxes(abuse: Abuse) -> None:
    """Of one user, so many at a time that they take every worker."""

    async def ask() -> None:
        async with abuse.connect() as connection:
            await connection.request(
                f"GET {INBOX_PATH}", f"Authorization: Bearer {abuse.target.token}", "Connection: close"
            )
            await connection.read_answer()

    await asyncio.gather(*(_repeat(ask, abuse) for _ in range(PARALLEL_INBOXES)))


ABUSERS: dict[str, Callable[[Abuse], Awaitable[None]]] = {
    "pings": pings,
    "fragments": fragments,
    "forms": forms,
    "bodies": bodies,
    "syncs": syncs,
    "watches": watches,
    "inboxes": inboxes,
    "bad_token_pings": bad_token_pings,
}


@dataclass(frozen=True, slots=True)
class Order:
    """Which abuser a client process is to be."""

    name: str
    target: Target


async def run_abuser(order: Order, signals: Signals) -> Figures:
    """Abuse the server between the signals, for `MAX_SECONDS` and `MAX_ATTEMPTS` at most. Returns what it did."""
    os.nice(NICE)
    abuse, attempt = Abuse(order.target), ABUSERS[order.name]
    await signals.ready()
    abusing = asyncio.create_task(_repeat(lambda: attempt(abuse), abuse))
    stopped = asyncio.create_task(signals.stopped.wait())
    await asyncio.wait((abusing, stopped), timeout=MAX_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    abusing.cancel()
    with suppress(asyncio.CancelledError):
        await abusing
    await stopped
    return {"attempts": float(abuse.attempts), "sent_mib": abuse.sent / MIB}


async def _repeat(attempt: Callable[[], Awaitable[None]], abuse: Abuse) -> None:
    while abuse.attempts < MAX_ATTEMPTS:
        with suppress(OSError):
            await attempt()
        await asyncio.sleep(PAUSE)


async def _repeat_frame(connection: Connection, one: bytes) -> None:
    block = one * (BLOCK_BYTES // len(one))
    while True:
        await connection.send(block)
