"""HTTP in front of the service: requests are read as they come, answered together, in order on each connection."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import httptools

from engines.dynamolite.service import Answered, Service

logger = logging.getLogger(__name__)

BODY_BYTES = 64 * 1024 * 1024
TARGET = b"x-amz-target"
SWEEP_SECONDS = 60.0
PAUSE_SECONDS = 0.2
"""Without a request, and what has been put off is done."""


@dataclass(slots=True)
class Asked:
    """A request, and the connection that waits for its answer."""

    connection: "Connection"
    operation: str
    body: bytes
    keeps_open: bool


class Server:
    """Collects the requests that arrive in one turn of the event loop, and has them carried out together."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._asked: list[Asked] = []
        self._loop = asyncio.get_running_loop()
        self._sweep = self._loop.call_later(SWEEP_SECONDS, self._sweep_up)
        self._answered_at = 0.0
        self._pause: asyncio.TimerHandle | None = None

    def close(self) -> None:
        self._sweep.cancel()
        if self._pause is not None:
            self._pause.cancel()

    def make_connection(self) -> asyncio.Protocol:
        return Connection(self._take)

    def _take(self, asked: Asked) -> None:
        if not self._asked:
            self._loop.call_soon(self._answer)
        self._asked.append(asked)

    def _answer(self) -> None:
        asked, self._asked = self._asked, []
        answers = self._service.answer_all([(one.operation, one.body) for one in asked])
        for one, answer in zip(asked, answers, strict=True):
            one.connection.answer(answer, keeps_open=one.keeps_open)
        self._answered_at = self._loop.time()
        if self._pause is None:
            self._pause = self._loop.call_later(PAUSE_SECONDS, self._settle)

    def _settle(self) -> None:
        """When nobody has asked for a while; else look again when that may be so."""
        rest = self._answered_at + PAUSE_SECONDS - self._loop.time()
        if rest > 0:
            self._pause = self._loop.call_later(rest, self._settle)
            return
        self._pause = None
        try:
            self._service.settle()
        except Exception:
            logger.exception("What the journal holds could not be committed; it stays there")

    def _sweep_up(self) -> None:
        """Delete what has expired, a part at a time so that nobody waits long."""
        pause = SWEEP_SECONDS
        try:
            if self._service.sweep():
                pause = 0.0
        except Exception:
            logger.exception("What has expired could not be deleted; the next try follows in %.0f s", SWEEP_SECONDS)
        self._sweep = self._loop.call_later(pause, self._sweep_up)


class Connection(asyncio.Protocol):
    """One client's connection. httptools calls the methods `on_…` while it reads."""

    def __init__(self, take: Callable[[Asked], None]) -> None:
        self._take = take
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._operation = b""
        self._body: list[bytes] = []
        self._size = 0

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
            logger.warning("A connection that does not speak HTTP is closed (%s)", error)
            self._close()

    def on_message_begin(self) -> None:
        self._operation, self._body, self._size = b"", [], 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == TARGET:
            self._operation = value.rpartition(b".")[2]

    def on_body(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > BODY_BYTES:
            logger.warning("A request of more than %d bytes is not read", BODY_BYTES)
            self._close()
        else:
            self._body.append(data)

    def on_message_complete(self) -> None:
        if self._transport is None:
            # Too much of it came: what there is of it is not what was asked.
            return
        operation, body = self._operation.decode("latin1"), b"".join(self._body)
        self._take(Asked(self, operation, body, self._parser.should_keep_alive()))

    def answer(self, answer: Answered, *, keeps_open: bool) -> None:
        if self._transport is None:
            return
        reason = b"OK" if answer.status == 200 else b"Refused"
        head = b"HTTP/1.1 %d %s\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n"
        self._transport.write(head % (answer.status, reason, len(answer.body)) + answer.body)
        if not keeps_open:
            self._close()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None
