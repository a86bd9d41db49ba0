"""An HTTP server on the test's event loop that answers as the test scripts it."""

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

LOOPBACK = "127.0.0.1"
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class End(Enum):
    """How a script ends its connection."""

    CLOSE = "FIN"
    RESET = "RST"


Script = Sequence[bytes | End]


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it arrived; header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def operation(self) -> str:
        return self.headers["x-amz-target"].rpartition(".")[2]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def answer(values: object, status: int = 200) -> Script:
    return raw_answer(json.dumps(values).encode(), status)


def raw_answer(body: bytes, status: int = 200, *headers: bytes) -> Script:
    head = [b"HTTP/1.1 %d Status" % status, b"Content-Length: %d" % len(body), *headers]
    return [b"\r\n".join(head) + b"\r\n\r\n" + body]


def failure(code: str, status: int = 400, **more: Any) -> Script:
    return answer({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "", **more}, status)


class ScriptedServer:
    """Answers each request by the next of `scripts`: pieces to send, and how to end. The last script repeats."""

    def __init__(self) -> None:
        self.scripts: list[Script] = [answer({})]
        self.requests: list[Received] = []
        self.connections = 0
        self.url = ""
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def operations(self) -> list[str]:
        return [request.operation for request in self.requests]

    @asynccontextmanager
    async def listening(self, tls: ssl.SSLContext | None = None) -> AsyncIterator["ScriptedServer"]:
        server = await asyncio.start_server(self._serve, LOOPBACK, 0, ssl=tls)
        self.url = f"{'https' if tls else 'http'}://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for writer in tuple(self._writers):
                writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while await self._answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            """The client has closed the connection."""
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False when that ends the connection."""
        self.requests.append(await _read(reader))
        for piece in self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]:
            if piece is End.RESET:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            if isinstance(piece, End):
                return False
            writer.write(piece)
            await writer.drain()
        return True


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1")
    first, *lines = head.rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Received(method, target, headers, await reader.readexactly(int(headers["content-length"])))
