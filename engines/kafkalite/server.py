"""Connections: requests one after the other, each answered before the next is looked at, as Kafka has it."""

import asyncio
import logging
from typing import cast

from engines.kafkalite.broker import Broker
from engines.kafkalite.wire import INT, Unreadable

logger = logging.getLogger(__name__)

MAX_REQUEST = 16 * 1024 * 1024
MAX_WAITING = 2 * MAX_REQUEST
EXPIRY_CHECK = 0.25


class Server:
    """The broker on a port. It may be taken down, when it refuses connections, and brought up again as it was."""

    def __init__(self, broker: Broker, *, host: str, port: int) -> None:
        self._broker = broker
        self._address = (host, port)
        self._is_up = False
        self._listener: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._loop = asyncio.get_running_loop()
        self._check = self._loop.call_later(EXPIRY_CHECK, self._expire)

    async def bring_up(self) -> None:
        """Raises `OSError` where the port cannot be listened on."""
        if self._listener is None:
            self._is_up = True
            self._listener = await self._loop.create_server(self._connection, *self._address)

    def take_down(self) -> None:
        self._is_up = False
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in list(self._connections):
            connection.close()

    def close(self) -> None:
        self._check.cancel()
        self.take_down()

    def enter(self, connection: "Connection") -> bool:
        """Whether a connection is let in: one that was on its way when the broker was taken down is not."""
        if self._is_up:
            self._connections.add(connection)
        return self._is_up

    def leave(self, connection: "Connection") -> None:
        self._connections.discard(connection)

    def _connection(self) -> "Connection":
        return Connection(self._broker, self)

    def _expire(self) -> None:
        self._check = self._loop.call_later(EXPIRY_CHECK, self._expire)
        try:
            self._broker.groups.expire()
        except Exception:
            logger.exception("Members of a group who are gone could not be given up; the next try follows")


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, broker: Broker, server: Server) -> None:
        self._broker = broker
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._is_answering = False
        self._is_serving = False
        # The client does not read what it has asked for.
        self._is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._server.enter(self):
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._server.leave(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > MAX_WAITING:
            logger.warning("A connection is closed: too many requests are waiting on it")
            self.close()
        else:
            self._serve()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._serve()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def _serve(self) -> None:
        """Take requests until one has to wait for its answer."""
        if self._is_serving:
            return
        self._is_serving = True
        try:
            while self._is_ready() and (frame := self._next()) is not None:
                self._is_answering = True
                self._broker.answer(frame, self._answer)
        except Unreadable as error:
            logger.warning("A connection is closed: %s", error)
            self.close()
        except Exception:
            logger.exception("A connection is closed: its request could not be carried out")
            self.close()
        finally:
            self._is_serving = False

    def _is_ready(self) -> bool:
        return self._transport is not None and not self._is_answering and not self._is_full

    def _next(self) -> bytes | None:
        received = self._received
        if len(received) < INT.size:
            return None
        size = INT.unpack_from(received)[0]
        if not 0 < size <= MAX_REQUEST:
            raise Unreadable(f"a request of {size} bytes")
        end = INT.size + size
        if len(received) < end:
            return None
        self._received = received[end:]
        return received[INT.size : end]

    def _answer(self, answer: bytes | None) -> None:
        self._is_answering = False
        if self._transport is not None and answer is not None:
            self._transport.write(INT.pack(len(answer)) + answer)
        if self._received and not self._is_serving:
            # Not at once: whoever answers may be about to answer others, and what follows may change who they are.
            self._loop.call_soon(self._serve)
