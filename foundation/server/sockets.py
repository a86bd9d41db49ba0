"""WebSockets under daphne with flow control in both directions and a pace.

The pace needs the state of autobahn's parser (`data`, `current_frame`, `processData`), which is undocumented (ADR-017).
"""

import asyncio
import logging
from collections.abc import Callable
from socket import SO_ERROR, SOL_SOCKET
from typing import Any

from autobahn.websocket.types import ConnectionDeny, ConnectionRequest
from daphne.ws_protocol import WebSocketProtocol
from twisted.internet.base import DelayedCall
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

from foundation.server.extension import FRAME_BURST, FRAME_RATE

log = logging.getLogger(__name__)

NO_LIMIT = 0
NORMAL_CLOSURE = 1000
CLOSE_TIMEOUT = 5.0
MAX_FRAMES_AHEAD = 64

# A frame of any kind takes a token. Payloads that autobahn reads take one more for each `BYTES_PER_TOKEN`.
# Before the application has accepted the client, and behind our close frame.
CLOSED_BURST = 64.0
BYTES_PER_TOKEN = 4_096
# A client over its pace is read again when it has this many tokens, or after a second if it was granted too few.
RESUME_TOKENS = 30.0
PAUSE_WITHOUT_GRANT = 1.0


class ParleySocket(WebSocketProtocol):  # type: ignore[misc]
    """Reads at most `MAX_FRAMES_AHEAD` frames ahead of its application, and no faster than the pace.

    Every frame counts: control frames, fragments, frames behind our close. A client over its pace is not read from;
    what was read already waits in autobahn's buffer.
    """

    is_ahead = False
    is_writable = True
    on_frame: Callable[[str], bool] | None = None
    on_connection_lost: Callable[[], None] | None = None
    # A client that breaks a rule gets a close code and time to read it.
    failByDrop = False  # noqa: N815 - autobahn's name
    closeHandshakeTimeout = CLOSE_TIMEOUT  # noqa: N815 - autobahn's name
    maxMessagePayloadSize: int  # noqa: N815 - autobahn's name
    data: bytes

    tokens = CLOSED_BURST
    _burst = CLOSED_BURST
    _refilled_at = 0.0
    _grant: Callable[[float], float] | None = None
    _is_short = False
    _over_pace: DelayedCall | None = None
    _lingering: DelayedCall | None = None
    _unanswered_ping: bytes | None = None

    def connectionMade(self) -> None:  # noqa: N802 - Twisted's name
        super().connectionMade()
        self._refilled_at = self.factory.reactor.seconds()

    def onConnect(self, request: ConnectionRequest) -> Any:  # noqa: N802 - autobahn's name
        """Refuse a request that daphne cannot decode and would log with a traceback."""
        decoded = (request.path, *request.headers, request.headers.get("sec-websocket-protocol", ""))
        if not all(text.isascii() for text in decoded):
            log.info("a handshake is refused: a header is not ASCII")
            raise ConnectionDeny(ConnectionDeny.BAD_REQUEST, "Bad Request")  # type: ignore[no-untyped-call]
        return super().onConnect(request)

    def onOpen(self) -> None:  # noqa: N802 - autobahn's name
        super().onOpen()
        self._resume()

    def onClose(self, *details: Any) -> None:  # noqa: N802 - autobahn's name
        """Tell daphne about the connections that it knows: not of those whose handshake was refused."""
        if hasattr(self, "server") and self in self.server.connections:
            super().onClose(*details)

    def connectionLost(self, *reason: Any) -> None:  # noqa: N802 - Twisted's name
        for timer in (self._over_pace, self._lingering):
            if timer is not None and timer.active():
                timer.cancel()
        super().connectionLost(*reason)
        if self.on_connection_lost is not None:
            self.on_connection_lost()

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        if self.state == self.STATE_CONNECTING and hasattr(self, "handshake_deferred"):
            # The application has not answered the handshake yet. autobahn reads this afterwards.
            self.data += data
            self.transport.pauseProducing()
            return
        super().dataReceived(data)
        self.answer_ping()
        self.check_connection()

    def processData(self) -> bool:  # noqa: N802 - autobahn's name
        """Parse the next header or payload, or stop when there is no token left."""
        if self.tokens < 1 and not self.refill():
            self._wait_for_tokens()
            return False
        is_header, before = self.current_frame is None, len(self.data)
        goes_on: bool = super().processData()
        if taken := before - len(self.data):
            self.tokens -= is_header + taken / BYTES_PER_TOKEN
        return goes_on

    def refill(self) -> bool:
        """Add the tokens of the time since the last call. Whether there is one to take."""
        now = self.factory.reactor.seconds()
        earned, self._refilled_at = (now - self._refilled_at) * FRAME_RATE, now
        wanted = max(0.0, min(earned, self._burst - self.tokens))
        granted = wanted if self._grant is None else self._grant(wanted)
        self._is_short = granted < wanted
        self.tokens += granted
        return self.tokens >= 1

    def accept_bursts(self, grant: Callable[[float], float]) -> None:
        """From now on, tokens are those that `grant` returns when it is asked for some."""
        self._grant = grant
        self._burst = FRAME_BURST
        self.tokens = grant(FRAME_BURST)

    def _wait_for_tokens(self) -> None:
        if self._over_pace is None:
            self.transport.pauseProducing()
            delay = PAUSE_WITHOUT_GRANT if self._is_short else (RESUME_TOKENS - self.tokens) / FRAME_RATE
            self._over_pace = self.factory.reactor.callLater(delay, self._read_on)

    def _read_on(self) -> None:
        self._over_pace = None
        self._resume()
        data, self.data = self.data, b""
        self.dataReceived(data)

    def _resume(self) -> None:
        if not self.is_ahead and self._over_pace is None:
            self.transport.resumeProducing()

    def onPing(self, payload: bytes) -> None:  # noqa: N802 - autobahn's name
        self._unanswered_ping = payload

    def answer_ping(self) -> None:
        """Answer the latest ping only, and not before the client reads what was written."""
        if self._unanswered_ping is not None and self.is_writable:
            payload, self._unanswered_ping = self._unanswered_ping, None
            self.sendPong(payload)

    def check_connection(self) -> None:
        """End a connection that failed meanwhile.

        uvloop does not watch a descriptor after an error. Without this check, a client that resets its connection
        before its last frames are read would count as connected, and the next write to it would raise in uvloop.
        """
        connection = self.transport
        if connection.connected and connection.getHandle().getsockopt(SOL_SOCKET, SO_ERROR):
            connection.abortConnection()

    def onMessage(self, payload: bytes, isBinary: bool) -> None:  # noqa: N802, N803 - autobahn's names
        super().onMessage(payload, isBinary)
        self.pause_if_ahead()

    def pause_if_ahead(self) -> None:
        if not self.is_ahead and self.application_queue.qsize() > MAX_FRAMES_AHEAD:
            self.is_ahead = True
            self.transport.pauseProducing()

    def resume_if_caught_up(self) -> None:
        if self.is_ahead and self.application_queue.qsize() < MAX_FRAMES_AHEAD // 2:
            self.is_ahead = False
            self._resume()

    def sendMessage(self, *args: Any, **options: Any) -> None:  # noqa: N802 - autobahn's name
        """Ignore what is sent to a client that is leaving: it will sync.

        autobahn applies one size limit to both directions. Ours is for clients' frames; pages to them are larger.
        """
        if self.state != self.STATE_OPEN:
            return
        limit, self.maxMessagePayloadSize = self.maxMessagePayloadSize, NO_LIMIT
        try:
            super().sendMessage(*args, **options)
        finally:
            self.maxMessagePayloadSize = limit

    def serverClose(self, code: int | None = None) -> None:  # noqa: N802 - daphne's name
        """Allow also the close codes that the protocol reserves for servers, which autobahn refuses to send."""
        self.sendCloseFrame(code=code or NORMAL_CLOSURE)

    def sendCloseFrame(self, *args: Any, **options: Any) -> None:  # noqa: N802 - autobahn's name
        """Behind our close frame only the client's matters: few frames are read until the close times out."""
        super().sendCloseFrame(*args, **options)
        self._burst = CLOSED_BURST
        self.tokens = min(self.tokens, CLOSED_BURST)

    def dropConnection(self, abort: bool = False) -> None:  # noqa: N802 - autobahn's name
        """Abort a connection whose client does not read the rest in time."""
        super().dropConnection(abort)
        if not abort and self._lingering is None:
            self._lingering = self.factory.reactor.callLater(CLOSE_TIMEOUT, self.transport.abortConnection)


@implementer(IPushProducer)
class FlowControl:
    """The socket extension. Twisted calls pause and resume as the socket's write buffer fills and drains."""

    def __init__(self, socket: ParleySocket) -> None:
        self.socket = socket
        self.is_writable = True
        self.writable = asyncio.Event()
        self.writable.set()

    def write(self, payload: bytes, frame: bytes) -> None:
        self.socket.sendMessage(payload, isBinary=False)

    def subscribe(self, on_frame: Callable[[str], bool], *, grant: Callable[[float], float]) -> None:
        self.socket.on_frame = on_frame
        self.socket.accept_bursts(grant)

    def frame_handled(self) -> None:
        self.socket.resume_if_caught_up()

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.is_writable = self.socket.is_writable = False
        self.writable.clear()

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.is_writable = self.socket.is_writable = True
        self.writable.set()
        self.socket.answer_ping()

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.is_writable = True
        self.writable.set()
