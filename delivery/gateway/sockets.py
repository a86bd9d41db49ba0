"""A connection as the gateway's other parts see it."""

import logging
from typing import Protocol

from delivery.gateway import frames
from delivery.gateway.closing import Close
from delivery.stores.connections import Registration

log = logging.getLogger(__name__)


class Socket(Protocol):
    registration: Registration
    registered_at: float

    def deliver(self, frame: frames.Frame) -> None: ...

    def end(self, close: Close) -> None: ...


def deliver_or_end(socket: Socket, frame: frames.Frame) -> bool:
    """Whether the socket took the frame. Closes one that cannot be written to; its client reconnects and syncs."""
    try:
        socket.deliver(frame)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this socket's alone
        log.warning("a socket cannot be written to: %r", error)
        socket.end(Close.RESTART)
        return False
    return True
