"""A WebSocket client with minimal CPU cost, so that the client is not the bottleneck.

It implements the part of RFC 6455 that Parley needs: text frames, no extensions, no fragments. Its masking key is zero,
which the protocol allows and which makes masking free.
"""

import asyncio
import base64
import os
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit

Receive = Callable[[bytes], object]
NO_MASK = b"\x00\x00\x00\x00"
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class WebSocket(asyncio.Protocol):
    """One connection. The first text frame (`connected`) resolves `ready`; `receive` gets each later payload."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._upgraded = False
        self.ready: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.closed: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def request_upgrade(self, request: bytes) -> None:
        if self._transport is not None:
            self._transport.write(request)

    def write(self, payload: bytes, *, opcode: int = TEXT) -> None:
        """Send a frame, or drop it once the connection is closed."""
        if self._transport is not None and not self.closed.done():
            self._transport.write(frame(payload, opcode=opcode))

    @property
    def is_open(self) -> bool:
        return self.ready.done() and not self.closed.done()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        if not self.closed.done():
            self.closed.set_result(1006)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        self._buffer = buffer
        if self._upgraded or self._upgrade():
            self._read_frames(self._buffer)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(1006)
        if not self.ready.done():
            self.ready.set_exception(ConnectionError("closed before it was ready"))

    def _upgrade(self) -> bool:
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return False
        first = head.split(b"\r\n", 1)[0]
        if b" 101 " not in first:
            if not self.ready.done():
                self.ready.set_exception(ConnectionError(first.decode()))
            return False
        self._buffer, self._upgraded = rest, True
        return True

    def _read_frames(self, buffer: bytes) -> None:
        place, end = 0, len(buffer)
        while end - place >= 2:
            size, start = buffer[place + 1], place + 2
            if size == 126:
                size, start = int.from_bytes(buffer[start : start + 2]), start + 2
            elif size == 127:
                size, start = int.from_bytes(buffer[start : start + 8]), start + 8
            if end < start + size:
                break
            opcode = buffer[place] & 0x0F
            place = start + size
            if opcode == TEXT and self.ready.done():
                self._receive(buffer[start:place])
            else:
                self._handle_other(opcode, buffer[start:place])
        self._buffer = buffer[place:] if place < end else b""

    def _handle_other(self, opcode: int, payload: bytes) -> None:
        if opcode == TEXT:
            self.ready.set_result(payload)
        elif opcode == PING:
            self.write(payload, opcode=PONG)
        elif opcode == CLOSE:
            code = int.from_bytes(payload[:2]) if payload else 1005
            if not self.ready.done():
                self.ready.set_exception(ConnectionError(f"closed with {code}"))
            if not self.closed.done():
                self.closed.set_result(code)


def frame(payload: bytes, *, opcode: int = TEXT) -> bytes:
    """A masked client frame, for payloads up to 64 KiB."""
    size = len(payload)
    head = bytes((0x80 | opcode, 0x80 | size)) if size < 126 else bytes((0x80 | opcode, 0xFE)) + size.to_bytes(2)
    return head + NO_MASK + payload


async def connect(url: str, token: str, receive: Receive, *, open_timeout: float = 30.0) -> WebSocket:
    """Return when the server has sent `connected`. Raises `OSError` or `TimeoutError`."""
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    _, socket = await loop.create_connection(lambda: WebSocket(receive), parts.hostname or "", parts.port or 80)
    lines = (
        f"GET {parts.path} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
        "Sec-WebSocket-Version: 13",
        f"Authorization: Bearer {token}",
    )
    socket.request_upgrade("\r\n".join((*lines, "", "")).encode())
    try:
        await asyncio.wait_for(socket.ready, open_timeout)
    except BaseException:
        socket.close()
        raise
    return socket
