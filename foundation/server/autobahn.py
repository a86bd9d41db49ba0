"""A WebSocket under daphne, with what a messaging server needs of it: flow control in both directions, and speed.

autobahn keeps the protocol. Two lanes pass it by, for what nearly all of the traffic is: whole text frames from
clients, which the application may have brought to it as they arrive, and frames to clients that were encoded once for
everyone who gets them. Whatever is unusual (fragments, control frames, frames that break a rule) is autobahn's to read.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from daphne.ws_protocol import WebSocketProtocol
from twisted.internet.interfaces import IPushProducer
from twisted.internet.tcp import Connection
from zope.interface import implementer

UNLIMITED = 0
NORMAL = 1000
CLOSE_PATIENCE = 5.0
FRAMES_AHEAD = 64

WHOLE_TEXT = 0x81
MASKED = 0x80
TWO_BYTES_OF_LENGTH = 126
MASK_BYTES = 4


class ParleySocket(WebSocketProtocol):  # type: ignore[misc]
    """A socket that reads no further ahead than its application can follow."""

    paused = False
    # Takes a frame at once, where the application has said who does.
    taker: Callable[[str], bool] | None = None
    # A client that breaks a rule is told which by a close code, and given a moment to read it.
    failByDrop = False  # noqa: N815 - autobahn's name
    closeHandshakeTimeout = CLOSE_PATIENCE  # noqa: N815 - autobahn's name
    maxMessagePayloadSize: int  # noqa: N815 - autobahn's name

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Whole text frames are taken here; from the first that is anything else on, autobahn reads."""
        if self.state == self.STATE_OPEN and not self.data and not self.inside_message and self.current_frame is None:
            data = self._take_whole_texts(data)
        if data:
            self._dataReceived(data)

    def _take_whole_texts(self, data: bytes) -> bytes:
        """Hand on each whole text frame at the beginning; return what is left."""
        place, end, at_once = 0, len(data), FRAMES_AHEAD
        while end - place > 2 + MASK_BYTES and data[place] == WHOLE_TEXT and data[place + 1] >= MASKED:
            size, start = data[place + 1] - MASKED, place + 2
            if size == TWO_BYTES_OF_LENGTH:
                size, start = int.from_bytes(data[start : start + 2]), start + 2
                if size < TWO_BYTES_OF_LENGTH:
                    break
            elif size > TWO_BYTES_OF_LENGTH:
                break
            payload = start + MASK_BYTES
            if size > self.maxMessagePayloadSize or payload + size > end:
                break
            try:
                text = _unmasked(data[payload : payload + size], data[start:payload]).decode()
            except UnicodeDecodeError:
                break
            self._take_text(text, at_once=at_once > 0)
            at_once -= 1
            place = payload + size
        return data[place:]

    def _take_text(self, text: str, *, at_once: bool) -> None:
        """To the application directly, or behind what waits for it; not too many at once, for others' sake."""
        if self.muted:
            return
        self.last_ping = time.time()
        if self.autoPingTimeoutCall is not None:
            self._cancelAutoPingTimeoutCall()
        queue = self.application_queue
        if at_once and self.taker is not None and queue.empty() and self.taker(text):
            return
        queue.put_nowait({"type": "websocket.receive", "text": text})
        self._hold_back()

    def onMessage(self, payload: bytes, isBinary: bool) -> None:  # noqa: N802, N803 - autobahn's names
        super().onMessage(payload, isBinary)
        self._hold_back()

    def _hold_back(self) -> None:
        if not self.paused and self.application_queue.qsize() > FRAMES_AHEAD:
            self.paused = True
            self.transport.pauseProducing()

    def sendMessage(self, *args: Any, **options: Any) -> None:  # noqa: N802 - autobahn's name
        """Nothing happens to what is written to a client that is leaving: it will sync.

        autobahn holds both directions to one limit; ours is for what clients send, and pages to them are larger.
        """
        if self.state != self.STATE_OPEN:
            return
        limit, self.maxMessagePayloadSize = self.maxMessagePayloadSize, UNLIMITED
        try:
            super().sendMessage(*args, **options)
        finally:
            self.maxMessagePayloadSize = limit

    def serverClose(self, code: int | None = None) -> None:  # noqa: N802 - daphne's name
        """Also with the codes that the protocol keeps for servers, which autobahn would refuse to send."""
        self.sendCloseFrame(code=code or NORMAL)


@implementer(IPushProducer)
class SocketLine:
    """The line to one socket's client. Twisted switches `open` as the socket's buffer fills and drains."""

    def __init__(self, socket: ParleySocket) -> None:
        self._socket = socket
        self.open = asyncio.Event()
        self.resumeProducing()
        transport = socket.transport
        self._is_plain = isinstance(transport, Connection) and not transport.TLS

    def write(self, frame: bytes) -> None:
        """What the operating system does not take at once waits in Twisted's buffer, and so does what follows it."""
        socket, transport = self._socket, self._socket.transport
        if socket.state != socket.STATE_OPEN or not transport.connected:
            return
        if self._is_plain and not transport.dataBuffer and not transport._tempDataLen and not transport.disconnecting:
            try:
                sent = transport.socket.send(frame)
            except OSError:  # the buffer is full, or the connection is lost, which Twisted will notice
                sent = 0
            if sent == len(frame):
                return
            frame = frame[sent:]
        transport.write(frame)

    def bring_frames(self, taker: Callable[[str], bool]) -> None:
        self._socket.taker = taker

    def frame_taken(self) -> None:
        socket = self._socket
        if socket.paused and socket.application_queue.qsize() < FRAMES_AHEAD // 2:
            socket.paused = False
            socket.transport.resumeProducing()

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.is_open = False
        self.open.clear()

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.is_open = True
        self.open.set()

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.resumeProducing()


def _unmasked(payload: bytes, mask: bytes) -> bytes:
    """XOR with the mask again and again, as one number: far quicker than byte by byte."""
    size = len(payload)
    whole = (mask * (size // MASK_BYTES + 1))[:size]
    return (int.from_bytes(payload) ^ int.from_bytes(whole)).to_bytes(size)
