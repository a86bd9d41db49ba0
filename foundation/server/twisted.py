"""The event loop of the `web` process: uvloop's, under Twisted's asyncio reactor.

Whoever imports Twisted's reactor first decides which one there is: this comes before anything else of daphne's.
"""

import asyncio
from collections.abc import Callable
from socket import SO_ERROR, SOL_SOCKET

import uvloop
from twisted.internet import asyncioreactor
from twisted.internet.main import CONNECTION_LOST
from twisted.internet.tcp import Connection

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


def _call(descriptor: object, read_or_write: Callable[..., object], *arguments: object) -> None:
    """Read or write, and end a connection that has failed meanwhile.

    After an error uvloop never looks at a descriptor again. A client who resets the connection before its last words
    were read would be taken for present, and the next write to it would fail in uvloop.
    """
    read_or_write(*arguments)
    if isinstance(descriptor, Connection) and descriptor.connected and _has_failed(descriptor):
        descriptor.reactor._disconnectSelectable(descriptor, CONNECTION_LOST, isRead=True)


def _has_failed(connection: Connection) -> bool:
    return connection.socket.getsockopt(SOL_SOCKET, SO_ERROR) != 0


# In the place of a context for Twisted's log, which nobody uses and which costs as much as the read itself.
asyncioreactor.callWithLogger = _call  # type: ignore[attr-defined]

import daphne.server  # noqa: E402, F401 - makes the loop and installs the reactor on it
