"""An HTTP proxy on the test's event loop that tunnels: what a client sends behind `CONNECT` reaches the server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LOOPBACK = "127.0.0.1"


class ConnectProxy:
    """Keeps the first lines and headers of the requests that it got; header names in lower case."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.url = ""
        self._writers: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["ConnectProxy"]:
        server = await asyncio.start_server(self._serve, LOOPBACK, 0)
        self.url = f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for writer in tuple(self._writers):
                writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin1").rstrip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.requests.append((first, headers))
        host, _, port = first.split()[1].partition(":")
        behind, ahead = await asyncio.open_connection(host, int(port))
        self._writers |= {writer, ahead}
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_copy(reader, ahead), _copy(behind, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
    writer.close()
