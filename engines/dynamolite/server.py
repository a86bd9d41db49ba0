"""The HTTP server: batches requests, and answers those of a connection in order."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import httptools

from engines.dynamolite.delay import AnswerDelay
from engines.dynamolite.service import HttpResponse, Service

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 64 * 1024 * 1024
TARGET = b"x-amz-target"
EXPIRY_INTERVAL_SECONDS = 60.0
IDLE_SECONDS = 0.2
"""After this time without a request the store makes a checkpoint."""


@dataclass(slots=True)
class PendingRequest:
    connection: "Connection"
    operation: str
    body: bytes
    keep_alive: bool


class Server:
    """Handles the requests that arrive in one iteration of the event loop as one batch.

    With a `delay` the requests are executed as they arrive, and each answer waits by itself.
    """

    def __init__(self, service: Service, *, delay: AnswerDelay | None = None) -> None:
        self._service = service
        self._delay = delay
        self._pending: list[PendingRequest] = []
        self._loop = asyncio.get_running_loop()
        self._expiry_timer = self._loop.call_later(EXPIRY_INTERVAL_SECONDS, self._delete_expired)
        self._last_batch_at = 0.0
        self._checkpoint_timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        self._expiry_timer.cancel()
        if self._checkpoint_timer is not None:
            self._checkpoint_timer.cancel()

    def make_connection(self) -> asyncio.Protocol:
        return Connection(self._enqueue)

    def _enqueue(self, request: PendingRequest) -> None:
        if not self._pending:
            self._loop.call_soon(self._handle_batch)
        self._pending.append(request)

    def _handle_batch(self) -> None:
        batch, self._pending = self._pending, []
        responses = self._service.handle_all([(request.operation, request.body) for request in batch])
        for request, response in zip(batch, responses, strict=True):
            if self._delay is None:
                request.connection.respond(response, keep_alive=request.keep_alive)
            else:
                request.connection.respond_after(self._delay.of(request.operation), response, request.keep_alive)
        self._last_batch_at = self._loop.time()
        if self._checkpoint_timer is None:
            self._checkpoint_timer = self._loop.call_later(IDLE_SECONDS, self._checkpoint_if_idle)

    def _checkpoint_if_idle(self) -> None:
        remaining = self._last_batch_at + IDLE_SECONDS - self._loop.time()
        if remaining > 0:
            self._checkpoint_timer = self._loop.call_later(remaining, self._checkpoint_if_idle)
            return
        self._checkpoint_timer = None
        try:
            self._service.checkpoint()
        except Exception:
            logger.exception("The checkpoint failed; the journal keeps its records")

    def _delete_expired(self) -> None:
        """Delete one batch of expired items, and the next at once while there are more."""
        delay = EXPIRY_INTERVAL_SECONDS
        try:
            if self._service.delete_expired():
                delay = 0.0
        except Exception:
            logger.exception("Deleting expired items failed; the next attempt is in %.0f s", EXPIRY_INTERVAL_SECONDS)
        self._expiry_timer = self._loop.call_later(delay, self._delete_expired)


class Connection(asyncio.Protocol):
    """One client's connection. httptools calls the `on_…` methods."""

    def __init__(self, enqueue: Callable[[PendingRequest], None]) -> None:
        self._enqueue = enqueue
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._operation = b""
        self._body: list[bytes] = []
        self._size = 0
        self._delayed: deque[tuple[HttpResponse, bool]] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            logger.warning("Closing a connection that does not speak HTTP (%s)", error)
            self._close()

    def on_message_begin(self) -> None:
        self._operation, self._body, self._size = b"", [], 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == TARGET:
            self._operation = value.rpartition(b".")[2]

    def on_body(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > MAX_BODY_BYTES:
            logger.warning("Closing a connection: its request has more than %d bytes", MAX_BODY_BYTES)
            self._close()
        else:
            self._body.append(data)

    def on_message_complete(self) -> None:
        if self._transport is None:
            # The body was too large and is incomplete.
            return
        operation, body = self._operation.decode("latin1"), b"".join(self._body)
        self._enqueue(PendingRequest(self, operation, body, self._parser.should_keep_alive()))

    def respond(self, response: HttpResponse, *, keep_alive: bool) -> None:
        if self._transport is None:
            return
        reason = b"OK" if response.status == 200 else b"Error"
        head = b"HTTP/1.1 %d %s\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n"
        self._transport.write(head % (response.status, reason, len(response.body)) + response.body)
        if not keep_alive:
            self._close()

    def respond_after(self, seconds: float, response: HttpResponse, keep_alive: bool) -> None:
        """Respond later. Responses keep their order, whichever timer fires first."""
        self._delayed.append((response, keep_alive))
        asyncio.get_running_loop().call_later(seconds, self._respond_next)

    def _respond_next(self) -> None:
        response, keep_alive = self._delayed.popleft()
        self.respond(response, keep_alive=keep_alive)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None
