"""Runs a load on the REST API by a client of our own, where `wrk` is not installed."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit

import httptools

from bench.figures import percentile
from bench.frames import BODY
from bench.rest_load import CONNECTIONS, TIMEOUT_SECONDS, Outcome, RestLoad


async def run_own(load: RestLoad, seconds: float) -> Outcome:
    requests = _requests(load)
    deadline, address = time.perf_counter() + seconds, urlsplit(load.base)
    connections = []
    for _ in range(CONNECTIONS):
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: _Connection(requests, deadline), address.hostname or "", address.port or 80
        )
        connections.append(connection)
    async with asyncio.timeout(seconds + TIMEOUT_SECONDS):
        await asyncio.gather(*(connection.done for connection in connections))
    latencies = [each for connection in connections for each in connection.latencies]
    failed = sum(connection.failed for connection in connections)
    return Outcome(len(latencies), failed, percentile(latencies, 0.5), percentile(latencies, 0.99))


def _requests(load: RestLoad) -> Callable[[], bytes]:
    """Each call returns the next request."""
    count = 0
    heads = [
        f"{load.method} {path} HTTP/1.1\r\nHost: {urlsplit(load.base).netloc}\r\nAuthorization: Bearer {token}\r\n"
        for token, path in load.places
    ]

    def build() -> bytes:
        nonlocal count
        count += 1
        head = heads[count % len(heads)]
        if load.sends is None:
            return f"{head}\r\n".encode()
        body = json.dumps({"client_message_id": f"{load.sends}-{count}", "content": BODY.decode()})
        return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()

    return build


class _Connection(asyncio.Protocol):
    """Sends the next request when the answer to the last has arrived, until the deadline. httptools calls `on_…`."""

    def __init__(self, build: Callable[[], bytes], deadline: float) -> None:
        self._build = build
        self._deadline = deadline
        self._parser = httptools.HttpResponseParser(self)
        self._sent_at = 0.0
        self.latencies: list[float] = []
        self.failed = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        now = time.perf_counter()
        self.latencies.append(now - self._sent_at)
        self.failed += not 200 <= self._parser.get_status_code() < 300
        if now < self._deadline:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.failed += time.perf_counter() < self._deadline
        self.done.set_result(None)

    def _send(self) -> None:
        self._sent_at = time.perf_counter()
        self._transport.write(self._build())
