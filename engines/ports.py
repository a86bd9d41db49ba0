"""Loopback ports that stay reserved from the moment they are chosen."""

import errno
import socket
import sys
from types import TracebackType
from typing import Self

from engines.errors import PortUnusable

LOOPBACK = "127.0.0.1"


class ReservedPort:
    """A port that a child may listen on and that the kernel assigns to no other process.

    A socket stays bound to it without listening. On Linux a server that sets `SO_REUSEADDR`, as all of ours do, can
    listen on the same port, and the kernel does not assign the port to others: neither before the child starts nor
    while a killed engine restarts. Other systems reject the second bind, so there the reservation ends at `hand_over`.
    """

    def __init__(self, number: int = 0) -> None:
        """Reserve `number`, or any free port for 0. Raises `PortUnusable`."""
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((LOOPBACK, number))
        except (OSError, OverflowError) as error:
            self._socket.close()
            raise PortUnusable(_describe(number, error)) from error
        self.number: int = self._socket.getsockname()[1]

    def hand_over(self) -> None:
        """Let a child listen from now on. Only on Linux does the reservation continue."""
        if sys.platform != "linux":
            self.release()

    def release(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _describe(number: int, error: OSError | OverflowError) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"Port {number} is in use by another process."
    return f"Port {number} cannot be used: {error}."
