"""A WebSocket client that costs next to nothing, so that the client is not what is measured.

It speaks just enough of RFC 6455 for Parley: text frames, no extensions, no fragments. The masking key is zero, which
the protocol allows and which leaves the payload as it is.
"""

import asyncio
import base64
import os
import re
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit

SEQUENCES = re.compile(rb'"sequence":(\d+)')

Receive = Callable[[bytes], None]


class Wire(asyncio.Protocol):
    """One socket. `receive` gets each text frame's bytes."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._upgraded = False
        self.ready: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.closed: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def write(self, payload: bytes, *, opcode: int = 1) -> None:
        size = len(payload)
        head = bytes([0x80 | opcode, 0x80 | size]) if size < 126 else bytes([0x80 | opcode, 0xFE]) + size.to_bytes(2)
        if self._transport is not None:
            self._transport.write(head + b"\x00\x00\x00\x00" + payload)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._upgraded:
            head, found, self._buffer = self._buffer.partition(b"\r\n\r\n")
            if not found:
                self._buffer = head
                return
            if b" 101 " not in head.split(b"\r\n", 1)[0]:
                self.ready.set_exception(ConnectionError(head.split(b"\r\n", 1)[0].decode()))
                return
            self._upgraded = True
        self._read_frames()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(1006)
        if not self.ready.done():
            self.ready.set_exception(ConnectionError("closed before it was ready"))

    def _read_frames(self) -> None:
        buffer, place = self._buffer, 0
        while len(buffer) - place >= 2:
            opcode, size, start = buffer[place] & 0x0F, buffer[place + 1], place + 2
            if size == 126:
                size, start = int.from_bytes(buffer[place + 2 : place + 4]), place + 4
            elif size == 127:
                size, start = int.from_bytes(buffer[place + 2 : place + 10]), place + 10
            if len(buffer) < start + size:
                break
            self._take(opcode, buffer[start : start + size])
            place = start + size
        self._buffer = buffer[place:]

    def _take(self, opcode: int, payload: bytes) -> None:
        if opcode == 1 and not self.ready.done():
            self.ready.set_result(payload)
        elif opcode == 1:
            self._receive(payload)
        elif opcode == 9:
            self.write(payload, opcode=10)
        elif opcode == 8:
            code = int.from_bytes(payload[:2]) if payload else 1005
            if not self.ready.done():
                self.ready.set_exception(ConnectionError(f"closed with {code}"))
            if not self.closed.done():
                self.closed.set_result(code)


async def connect(url: str, token: str, receive: Receive) -> Wire:
    """Return when the server has said `connected`."""
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    _, wire = await loop.create_connection(lambda: Wire(receive), parts.hostname or "", parts.port or 80)
    lines = (
        f"GET {parts.path} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
        "Sec-WebSocket-Version: 13",
        f"Authorization: Bearer {token}",
    )
    if wire._transport is not None:
        wire._transport.write("\r\n".join((*lines, "", "")).encode())
    await asyncio.wait_for(wire.ready, 30)
    return wire
