"""An XMPP client with minimal CPU cost, like `bench.websocket` for Parley.

It implements the part of RFC 6120 that a server on this machine needs: a stream without TLS, SASL PLAIN, a resource.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from bench.peers.stanzas import BIND, FAILURES, FEATURES, HEADER, PRESENCE, authentication, end_of_stanza
from engines.ports import LOOPBACK

Receive = Callable[[bytes], None]
END = b"</stream:stream>"
ANSWER_TIMEOUT = 30.0


class Refused(ConnectionError):
    """Raised if the server answers with an error or closes the stream during a wait."""


class Stream(asyncio.Protocol):
    """One connection. Stanzas queue for `wait_for` until `set_receiver` installs a callback."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._receive: Receive = self._queue.put_nowait
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._queue.put_nowait(END)

    def write(self, stanza: bytes) -> None:
        """Send a stanza, or drop it once the connection is closed."""
        if self._transport is not None and self.is_open:
            self._transport.write(stanza)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def set_receiver(self, receive: Receive) -> None:
        """Pass each further stanza to `receive` and drop those queued."""
        self._receive = receive
        self._queue = asyncio.Queue()

    async def wait_for(self, text: bytes) -> bytes:
        """Return the next stanza that contains `text`; drop those before it. Raises `Refused`, `TimeoutError`."""
        async with asyncio.timeout(ANSWER_TIMEOUT):
            while True:
                stanza = await self._queue.get()
                if stanza == END or any(failure in stanza for failure in FAILURES):
                    raise Refused(stanza.decode())
                if text in stanza:
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
    """Return when the user is logged in. Raises `OSError` or `TimeoutError`."""
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
        for stanza, text in steps:
            stream.write(stanza)
            await stream.wait_for(text)
    except BaseException:
        stream.close()
        raise
    return stream
