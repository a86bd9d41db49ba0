"""A TCP proxy in front of Redis, which loses what a network or a failover loses."""

import asyncio
import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread
from urllib.parse import urlsplit

from engines.ports import LOOPBACK

CONFIRMATION = b"$9\r\nsubscribe\r\n"


@dataclass(eq=False)
class Connection:
    is_subscribed: bool = False
    is_deaf: bool = False


class RedisProxy:
    """For tests with and without an event loop: it has its own, in a thread."""

    def __init__(self, redis_url: str) -> None:
        self.url = ""
        self._connections: list[Connection] = []
        self._loop = asyncio.new_event_loop()
        self.lead_to(redis_url)

    @contextmanager
    def listening(self) -> Iterator["RedisProxy"]:
        thread = Thread(target=self._loop.run_forever, daemon=True)
        thread.start()
        starting = asyncio.start_server(self._serve, LOOPBACK, 0)
        server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(10)
        self.url = f"redis://{LOOPBACK}:{server.sockets[0].getsockname()[1]}/0"
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self._close(server), self._loop).result(10)
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(10)
            self._loop.close()

    def lead_to(self, redis_url: str) -> None:
        """New connections lead to this server; those that are open stay where they are."""
        self._port = urlsplit(redis_url).port

    def deafen_subscribers(self) -> int:
        """Forward nothing more to those who have subscribed, whose connections stay open; return how many they are."""
        deaf = [connection for connection in self._connections if connection.is_subscribed]
        for connection in deaf:
            connection.is_deaf = True
        return len(deaf)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection()
        self._connections.append(connection)
        server_reader, server_writer = await asyncio.open_connection(LOOPBACK, self._port)
        try:
            await asyncio.gather(_forward(reader, server_writer), _forward(server_reader, writer, of=connection))
        finally:
            writer.close()
            server_writer.close()

    async def _close(self, server: asyncio.Server) -> None:
        server.close()
        serving = asyncio.all_tasks() - {asyncio.current_task()}
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, of: Connection | None = None) -> None:
    """Forward one direction of a connection; `of` is given for what the server sends."""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            if of is not None:
                of.is_subscribed |= CONFIRMATION in data
            if of is None or not of.is_deaf:
                writer.write(data)
    writer.close()
