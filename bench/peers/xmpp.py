"""An XMPP client that costs next to nothing, as `bench.wire` does for Parley's protocol.

It speaks just enough of RFC 6120 for a server on this machine: a stream without TLS, a password, a resource.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from bench.peers.stanzas import BIND, FAILURES, FEATURES, HEADER, PRESENCE, authentication, end_of_stanza
from engines.ports import LOOPBACK

Receive = Callable[[bytes], None]
END = b"</stream:stream>"
PATIENCE = 30.0


class Refused(ConnectionError):
    """Raised when the server answers with an error, or closes the stream, while one waits for it."""


class Stream(asyncio.Protocol):
    """One socket. Stanzas wait to be asked for until `deliver_to` says who gets them as they come."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._receive: Receive = self._waiting.put_nowait
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._waiting.put_nowait(END)

    def write(self, stanza: bytes) -> None:
        """Into the void once the connection is closed, as with any socket: what matters is what comes back."""
        if self._transport is not None and self.is_open:
            self._transport.write(stanza)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def deliver_to(self, receive: Receive) -> None:
        """Nobody has asked for what has come so far: it goes."""
        self._receive = receive
        self._waiting = asyncio.Queue()

    async def answer(self, words: bytes) -> bytes:
        """The next stanza with these words in it; others on the way are dropped. Raises `Refused`, `TimeoutError`."""
        async with asyncio.timeout(PATIENCE):
            while True:
                stanza = await self._waiting.get()
                if stanza == END or any(failure in stanza for failure in FAILURES):
                    raise Refused(stanza.decode())
                if words in stanza:
                    return stanza

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        place, end = 0, len(buffer)
        while place < end and (stop := end_of_stanza(buffer, place)) > 0:
            self._receive(buffer[place:stop])
            place = stop
        self._buffer = buffer[place:]
        if self._buffer.startswith(END):
            self.close()


async def log_in(port: int, name: str, password: str) -> Stream:
    """Return when the user is online. Raises `OSError` or `TimeoutError`."""
    loop = asyncio.get_running_loop()
    _, stream = await loop.create_connection(Stream, LOOPBACK, port)
    steps = (
        (HEADER, FEATURES),
        (authentication(name, password), b"<success"),
        (HEADER, FEATURES),
        (BIND, b"<jid>"),
        (PRESENCE, b"<presence"),
    )
    try:
        for stanza, words in steps:
            stream.write(stanza)
            await stream.answer(words)
    except BaseException:
        stream.close()
        raise
    return stream
