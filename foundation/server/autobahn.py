"""A faster WebSocket beside autobahn, by its and Twisted's private parts. Switched off by `FAST_SOCKETS=0`.

Handles here what nearly all traffic is: whole text frames from clients, and frames to clients that were encoded once
for all receivers. autobahn handles the rest: fragments, control frames, frames that break a rule.
"""

import time
from socket import SO_ERROR, SOL_SOCKET

from twisted.internet.tcp import Connection

from foundation.server.sockets import MAX_FRAMES_AHEAD, FlowControl, ParleySocket

WHOLE_TEXT = 0x81
MASKED = 0x80
TWO_BYTES_OF_LENGTH = 126
MASK_BYTES = 4
# Above this many tokens the clock is not read.
FEW_TOKENS = 1_000


class FastSocket(ParleySocket):
    """Decodes whole text frames itself and passes them to `on_frame`."""

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        if self.state == self.STATE_OPEN and not self.data and not self.inside_message and self.current_frame is None:
            data = self._read_texts(data)
        if data:
            super().dataReceived(data)
        elif self.transport.connected and self.transport.socket.getsockopt(SOL_SOCKET, SO_ERROR):
            self.transport.abortConnection()  # as `check_connection` does; reading the error has cleared it

    def _read_texts(self, data: bytes) -> bytes:
        """Handle the whole text frames at the beginning of `data`; return the rest."""
        at, end, direct = 0, len(data), MAX_FRAMES_AHEAD
        if self.tokens < FEW_TOKENS:
            self.refill()
        while self.tokens >= 1 and end - at > 2 + MASK_BYTES and data[at] == WHOLE_TEXT and data[at + 1] >= MASKED:
            size, start = data[at + 1] - MASKED, at + 2
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
                text = _unmask(data[payload : payload + size], data[start:payload]).decode()
            except UnicodeDecodeError:
                break
            self.tokens -= 1
            self._receive(text, direct=direct > 0)
            direct -= 1
            at = payload + size
        return data[at:]

    def _receive(self, text: str, *, direct: bool) -> None:
        """Pass a frame to `on_frame`, or queue it behind those that wait for the application.

        `direct` is false behind the first frames of one read, so that other sockets get their turn.
        """
        if self.muted:
            return
        self.last_ping = time.time()
        if self.autoPingTimeoutCall is not None:
            self._cancelAutoPingTimeoutCall()
        queue = self.application_queue
        if direct and self.on_frame is not None and queue.empty() and self.on_frame(text):
            return
        queue.put_nowait({"type": "websocket.receive", "text": text})
        self.pause_if_ahead()


class FastFlowControl(FlowControl):
    """Writes encoded frames to the operating system's socket, without a call through autobahn."""

    def __init__(self, socket: ParleySocket) -> None:
        super().__init__(socket)
        transport = socket.transport
        self._is_plain = isinstance(transport, Connection) and not transport.TLS

    def write(self, payload: bytes, frame: bytes) -> None:
        """What the operating system does not take at once waits in Twisted's buffer."""
        socket, transport = self.socket, self.socket.transport
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


def _unmask(payload: bytes, mask: bytes) -> bytes:
    """XOR with the repeated mask, as one large number: far quicker than byte by byte."""
    size = len(payload)
    repeated = (mask * (size // MASK_BYTES + 1))[:size]
    return (int.from_bytes(payload) ^ int.from_bytes(repeated)).to_bytes(size)
