"""HTTP/1.1 under daphne with limits, by private parts of Twisted and daphne.

Bounds what a client may send (bodies), how long it may take (requests and the reading of answers) and what it may
claim (headers of proxies). HTTP/2 is never negotiated: it would bypass these limits.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from daphne.http_protocol import HTTPFactory, WebRequest
from django.http import HttpResponse
from twisted.internet.tcp import Connection
from twisted.web.http import HTTPChannel
from twisted.web.http_headers import Headers

from foundation.kernel.errors import Malformed, ParleyError, RateLimited, TooLarge, Unavailable
from foundation.rest import health
from foundation.rest.addresses import ClientAddress
from foundation.rest.problems import problem
from foundation.server.bodies import BodyBudget, HeldBody
from foundation.server.connections import ConnectionsPerAddress, Slot
from foundation.server.sockets import ParleySocket

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 60
# A client that was refused has this long to read the answer. Meanwhile nothing is read from it.
REFUSAL_SECONDS = 2.0
MIN_READ_BYTES_PER_SECOND = 1024
MAX_BODY_PIECES = 1024
# Django takes 20 ms of the event loop to read one with 4,000 parameters.
MAX_CONTENT_TYPE = 256
ROOT_PATH_HEADER = b"Daphne-Root-Path"
FORWARDING_HEADERS = (
    b"Forwarded",
    b"X-Forwarded-For",
    b"X-Forwarded-Host",
    b"X-Forwarded-Port",
    b"X-Forwarded-Proto",
    b"X-Real-Ip",
)
Header = tuple[bytes, bytes]
CompleteHeaders = Callable[[Iterable[Header], Sequence[Header], int], list[Header]]
"""From a request's headers, an answer's own and its status to all headers of the answer."""
PROBE_PATHS = frozenset(path.encode() for path in health.PATHS)
_ERRORS: Mapping[int, type[ParleyError]] = {400: Malformed, 503: Unavailable}


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What a client may do. A request must arrive whole within `request_seconds` of its first byte, the first request
    of a connection within as long of the connection. Of an answer, 1 KiB a second must be read, counted over
    `response_seconds`.
    """

    body_bytes: int
    request_seconds: float
    response_seconds: float
    connections: ConnectionsPerAddress
    bodies: BodyBudget
    client_address: ClientAddress


class ParleyRequest(WebRequest):  # type: ignore[misc]
    """Holds a body up to the limit, never parses forms, and believes only our proxies."""

    slot: Slot | None = None
    body: HeldBody | None = None
    pieces = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, parsePOSTFormSubmission=False, **options)

    def gotLength(self, length: int | None) -> None:  # noqa: N802 - Twisted's name
        """Keep the body in memory: it is small, and a file would block the event loop."""
        self.content = BytesIO()

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        self.pieces += 1
        if self.pieces > MAX_BODY_PIECES:
            raise TooLarge(f"The body is sent in more than {MAX_BODY_PIECES} pieces")
        require_size(self.content.tell() + len(data), self.channel.limits)
        if self.body is not None:
            self.body.grow(len(data))
        self.content.write(data)

    def admit_body(self) -> None:
        """Count the request before its body arrives. Raises `RateLimited`."""
        self._take_slot()
        self.body = self.channel.limits.bodies.open(self._address())

    def process(self) -> Any:
        transport, headers = self.transport, self.requestHeaders
        headers.removeHeader(ROOT_PATH_HEADER)
        if not self._comes_by_proxy():
            for name in FORWARDING_HEADERS:
                headers.removeHeader(name)
        elif self.body is None and self.path not in PROBE_PATHS:
            try:
                self._take_slot()
            except RateLimited as error:
                return self.answer(error)
        if fault := _find_fault(headers):
            return self.answer(Malformed(fault), closes=True)
        done = super().process()
        if isinstance(transport.protocol, ParleySocket):  # upgraded: the channel and this request see no more events
            transport.protocol.on_connection_lost = (self.slot or self.channel.slot).release
            if self.body is not None:
                self.body.release()
        return done

    def finish(self) -> None:
        super().finish()
        self._release()

    def connectionLost(self, reason: Any) -> None:  # noqa: N802 - Twisted's name
        super().connectionLost(reason)
        self._release()

    def basic_error(self, status: int, status_text: bytes, body: str) -> None:
        """Turn daphne's own errors into problems.

        They are answered at once, so a connection gets one: a thousand that are pipelined would hold up the loop.
        """
        self.answer(_ERRORS.get(status, ParleyError)(body), closes=True)

    def answer(self, error: ParleyError, *, closes: bool = False) -> None:
        """Answer without an application, and end the connection if it `closes`."""
        if self._response_started:
            self.channel.forceAbortClient()
            return
        response = problem(error)
        if closes:
            self.channel.persistent = False
            response["Connection"] = "close"
        headers = self.channel.complete(response, self)
        self.handle_reply({"type": "http.response.start", "status": response.status_code, "headers": headers})
        self.handle_reply({"type": "http.response.body", "body": response.content})

    def _comes_by_proxy(self) -> bool:
        is_proxy: bool = self.channel.limits.client_address.is_proxy(self._peer())
        return is_proxy

    def _take_slot(self) -> None:
        """Count a forwarded address; the connection itself is counted already. Raises `RateLimited`."""
        if self._comes_by_proxy():
            self.slot = self.channel.limits.connections.take(self._address())
            if self.slot is None:
                raise RateLimited("Too many connections from this address")

    def _address(self) -> str:
        hops = b",".join(self.requestHeaders.getRawHeaders(b"X-Forwarded-For", [])).decode("latin1")
        address: str = self.channel.limits.client_address.resolve(self._peer(), hops)
        return address

    def _peer(self) -> str:
        return getattr(self.channel.getPeer(), "host", "")

    def _release(self) -> None:
        if self.body is not None:
            self.body.release()
        if self.slot is not None:
            self.slot.release()


Channel: Any = HTTPChannel  # its methods have no types


class ParleyChannel(Channel):  # type: ignore[misc]
    """A connection. Twisted's idle timeout restarts with every byte; this one's deadlines do not."""

    slot: Slot
    is_receiving = True
    is_expected_to_read = False
    _dataBuffer: list[bytes]  # noqa: N815 - Twisted's name
    pipelined = b""
    """Requests that wait until the client has read the answers before them."""

    @property
    def limits(self) -> HttpLimits:
        limits: HttpLimits = self.factory.limits
        return limits

    # Requests

    def resetTimeout(self) -> None:  # noqa: N802 - Twisted's name
        """Start the deadline of a request with its first byte. Twisted calls this for all bytes."""
        if not self.is_receiving:
            self.is_receiving = True
            self.setTimeout(self.limits.request_seconds)

    def allHeadersReceived(self) -> None:  # noqa: N802 - Twisted's name
        """Refuse a body by its declared length and its sender, before Twisted sends `100 Continue`."""
        try:
            require_size(self.length or 0, self.limits)
            if self.length != 0:
                self.requests[-1].admit_body()
        except ParleyError as error:
            self.refuse(error)
        else:
            super().allHeadersReceived()

    def rawDataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        try:
            super().rawDataReceived(data)
        except ParleyError as error:
            self.refuse(error)

    def refuse(self, error: ParleyError) -> None:
        """Answer a request that has not arrived whole, and end the connection.

        Read nothing more, so that the rest is never held. Closing at once instead would reset the connection, and
        the client might lose the answer.
        """
        response = problem(error)
        response["Connection"] = "close"
        response["Content-Length"] = str(len(response.content))
        self.transport.write(_encode(response, self.complete(response, self.requests[-1] if self.requests else None)))
        self.setTimeout(None)
        self.paused = True  # parse no more of what has been read
        self._networkProducer.unregisterProducer()
        self._networkProducer.pauseProducing()
        self._abortingCall = self.callLater(REFUSAL_SECONDS, self.forceAbortClient)

    def complete(self, response: HttpResponse, request: ParleyRequest | None) -> list[Header]:
        """The response's headers, and those that an application's answer to the request would have."""
        sent = [] if request is None else request.requestHeaders.getAllRawHeaders()
        asked = [(name.lower(), value) for name, values in sent for value in values]
        own = [(name.encode(), value.encode()) for name, value in response.items()]
        headers: list[Header] = self.factory.complete_headers(asked, own, response.status_code)
        return headers

    def _respondToBadRequestAndDisconnect(self) -> None:  # noqa: N802 - Twisted's name
        self.refuse(Malformed())

    def lineLengthExceeded(self, line: bytes) -> None:  # noqa: N802 - Twisted's name
        """Twisted would close the connection without an answer."""
        self.refuse(Malformed(f"The request line or a header is longer than {self.MAX_LENGTH} bytes"))

    # Answers

    def requestDone(self, request: Any) -> None:  # noqa: N802 - Twisted's name
        """Serve the next request, but not before the client reads: Twisted would go on and buffer all answers."""
        self.is_receiving = False
        self._savedTimeOut = KEEP_ALIVE_SECONDS
        if self._waitingForTransport and self.persistent:
            self.pipelined = b"".join(self._dataBuffer)
            self._dataBuffer.clear()
            self._networkProducer.pauseProducing()
        super().requestDone(request)
        if not self.is_expected_to_read and (unsent := self._unsent()):
            self._expect_reading(unsent)

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        super().resumeProducing()
        waiting, self.pipelined = self.pipelined, b""
        if waiting:
            self.dataReceived(waiting)

    def timeoutConnection(self) -> None:  # noqa: N802 - Twisted's name
        """A connection whose answer is still being read is not idle."""
        if self._unsent() and not self.is_receiving:
            self.setTimeout(KEEP_ALIVE_SECONDS)
        else:
            super().timeoutConnection()

    def connectionLost(self, reason: Any) -> None:  # noqa: N802 - Twisted's name
        super().connectionLost(reason)
        self.slot.release()

    def _expect_reading(self, unsent: int) -> None:
        self.is_expected_to_read = True
        self.callLater(self.limits.response_seconds, self._require_reading, unsent)

    def _require_reading(self, before: int) -> None:
        """Cut off a client that reads its answer too slowly or not at all."""
        self.is_expected_to_read = False
        unsent = self._unsent()
        if not unsent or self.transport.disconnected or self.transport.protocol is not self:
            return
        if before - unsent < MIN_READ_BYTES_PER_SECOND * self.limits.response_seconds:
            self.forceAbortClient()
        else:
            self._expect_reading(unsent)

    def _unsent(self) -> int:
        """The bytes that wait in the process because the operating system does not take them."""
        transport = self.transport
        if not isinstance(transport, Connection):
            return 0
        return int(len(transport.dataBuffer) - transport.offset + transport._tempDataLen)


class ParleyFactory(HTTPFactory):  # type: ignore[misc]
    """Makes a channel for each connection, or closes it if its address holds too many."""

    protocol = ParleyChannel

    def __init__(self, server: Any) -> None:
        super().__init__(server)
        self.limits: HttpLimits = server.limits
        self.complete_headers: CompleteHeaders = server.complete_headers
        self.timeOut = self.limits.request_seconds

    def buildProtocol(self, addr: Any) -> ParleyChannel | None:  # noqa: N802 - Twisted's name
        address = getattr(addr, "host", "")
        slot = self.limits.connections.take(address)
        if slot is None:
            log.warning("%s holds too many connections; another was closed", address)
            return None
        channel: ParleyChannel = super().buildProtocol(addr)
        channel.requestFactory = ParleyRequest
        channel.slot = slot
        return channel

    def acceptableProtocols(self) -> list[bytes]:  # noqa: N802 - Twisted's name
        return [b"http/1.1"]


def _find_fault(headers: Headers) -> str | None:
    """Why a header is refused, whatever the request."""
    if not all(value.isascii() for value in headers.getRawHeaders(b"Sec-WebSocket-Protocol", [])):
        return "A subprotocol is not ASCII"
    if any(len(value) > MAX_CONTENT_TYPE for value in headers.getRawHeaders(b"Content-Type", [])):
        return f"The content type is longer than {MAX_CONTENT_TYPE} bytes"
    return None


def require_size(size: int, limits: HttpLimits) -> None:
    if size > limits.body_bytes:
        raise TooLarge(f"The body is larger than {limits.body_bytes} bytes")


def _encode(response: HttpResponse, headers: Iterable[Header]) -> bytes:
    head = [f"HTTP/1.1 {response.status_code} {response.reason_phrase}".encode("latin1")]
    head += [name + b": " + value for name, value in headers]
    return b"\r\n".join([*head, b"", response.content])
