"""TCP connections. The requests of a connection are handled one by one, each after the response to the previous."""

import asyncio
import logging
from typing import cast

from engines.kafkalite.broker import Broker
from engines.kafkalite.wire import INT32, ProtocolError

logger = logging.getLogger(__name__)

MAX_REQUEST_BYTES = 16 * 1024 * 1024
MAX_BUFFER_BYTES = 2 * MAX_REQUEST_BYTES
EXPIRY_INTERVAL_SECONDS = 0.25


class Server:
    """The broker on a port. `take_down` closes the port and all connections, `bring_up` opens the port again."""

    def __init__(self, broker: Broker, *, host: str, port: int) -> None:
        self._broker = broker
        self._address = (host, port)
        self._is_up = False
        self._listener: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._loop = asyncio.get_running_loop()
        self._expiry_timer = self._loop.call_later(EXPIRY_INTERVAL_SECONDS, self._expire)

    async def bring_up(self) -> None:
        """Raises `OSError` if it cannot listen on the port."""
        if self._listener is None:
            self._is_up = True
            self._listener = await self._loop.create_server(self._make_connection, *self._address)

    def take_down(self) -> None:
        self._is_up = False
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in list(self._connections):
            connection.close()

    def close(self) -> None:
        self._expiry_timer.cancel()
        self.take_down()

    def register(self, connection: "Connection") -> bool:
        """Return False for a connection that was accepted before `take_down` and opens after it."""
        if self._is_up:
            self._connections.add(connection)
        return self._is_up

    def unregister(self, connection: "Connection") -> None:
        self._connections.discard(connection)

    def _make_connection(self) -> "Connection":
        return Connection(self._broker, self)

    def _expire(self) -> None:
        self._expiry_timer = self._loop.call_later(EXPIRY_INTERVAL_SECONDS, self._expire)
        try:
            self._broker.groups.expire()
        except Exception:
            logger.exception("Expiring group members failed; the next attempt follows")


class Connection(asyncio.Protocol):
    """One client's connection.

    It stops handling requests while a response is outstanding, and while the client does not read (backpressure).
    """

    def __init__(self, broker: Broker, server: Server) -> None:
        self._broker = broker
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._awaits_response = False
        self._is_handling = False
        self._is_write_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._server.register(self):
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._server.unregister(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) > MAX_BUFFER_BYTES:
            logger.warning("Closing a connection: its buffer is full")
            self.close()
        else:
            self._handle_requests()

    def pause_writing(self) -> None:
        self._is_write_paused = True

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._handle_requests()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def _handle_requests(self) -> None:
        """Handle requests until one waits for its response."""
        if self._is_handling:
            return
        self._is_handling = True
        try:
            while self._is_ready() and (frame := self._next_frame()) is not None:
                self._awaits_response = True
                self._broker.handle(frame, self._respond)
        except ProtocolError as error:
            logger.warning("Closing a connection: %s", error)
            self.close()
        except Exception:
            logger.exception("Closing a connection: its request failed")
            self.close()
        finally:
            self._is_handling = False

    def _is_ready(self) -> bool:
        return self._transport is not None and not self._awaits_response and not self._is_write_paused

    def _next_frame(self) -> bytes | None:
        buffer = self._buffer
        if len(buffer) < INT32.size:
            return None
        size = INT32.unpack_from(buffer)[0]
        if not 0 < size <= MAX_REQUEST_BYTES:
            raise ProtocolError(f"a request of {size} bytes")
        end = INT32.size + size
        if len(buffer) < end:
            return None
        self._buffer = buffer[end:]
        return buffer[INT32.size : end]

    def _respond(self, response: bytes | None) -> None:
        self._awaits_response = False
        if self._transport is not None and response is not None:
            self._transport.write(INT32.pack(len(response)) + response)
        if self._buffer and not self._is_handling:
            # Not at once: the caller may be iterating over state that the next request changes.
            self._loop.call_soon(self._handle_requests)
