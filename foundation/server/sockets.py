"""WebSockets under daphne with flow control in both directions, by the public interfaces of Twisted and autobahn."""

import asyncio
from collections.abc import Callable
from socket import SO_ERROR, SOL_SOCKET
from typing import Any

from daphne.ws_protocol import WebSocketProtocol
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

NO_LIMIT = 0
NORMAL_CLOSURE = 1000
CLOSE_TIMEOUT = 5.0
MAX_FRAMES_AHEAD = 64


class ParleySocket(WebSocketProtocol):  # type: ignore[misc]
    """Reads at most `MAX_FRAMES_AHEAD` frames ahead of its application."""

    is_paused = False
    on_frame: Callable[[str], bool] | None = None
    # A client that breaks a rule gets a close code and time to read it.
    failByDrop = False  # noqa: N815 - autobahn's name
    closeHandshakeTimeout = CLOSE_TIMEOUT  # noqa: N815 - autobahn's name
    maxMessagePayloadSize: int  # noqa: N815 - autobahn's name

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        super().dataReceived(data)
        self.check_connection()

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
        if not self.is_paused and self.application_queue.qsize() > MAX_FRAMES_AHEAD:
            self.is_paused = True
            self.transport.pauseProducing()

    def resume_if_caught_up(self) -> None:
        if self.is_paused and self.application_queue.qsize() < MAX_FRAMES_AHEAD // 2:
            self.is_paused = False
            self.transport.resumeProducing()

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

    def subscribe(self, on_frame: Callable[[str], bool]) -> None:
        self.socket.on_frame = on_frame

    def frame_handled(self) -> None:
        self.socket.resume_if_caught_up()

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.is_writable = False
        self.writable.clear()

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.is_writable = True
        self.writable.set()

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.resumeProducing()
