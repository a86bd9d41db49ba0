"""daphne, with what a messaging server needs of its sockets: flow control in both directions, and a gentle end.

A socket's scope carries its `Flow`: whether the client keeps up with what is written to it, and a way to say that a
frame was dealt with, so that a client that runs ahead is stopped instead of its frames being hoarded. On SIGTERM the
gateway says goodbye before daphne ends what is left.
"""

from daphne.server import Server  # isort: skip - installs Twisted's asyncio reactor before anything imports another

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

log = logging.getLogger(__name__)

MAX_FRAME_BYTES = 16 * 1024
UNLIMITED = 0
NORMAL = 1000
CLOSE_PATIENCE = 5.0
FRAMES_AHEAD = 64
FLOW = "parley.flow"


class FlowControlledProtocol(WebSocketProtocol):  # type: ignore[misc]
    """A socket that reads no further ahead than its application can follow."""

    paused = False
    # A client that breaks a rule is told which by a close code, and given a moment to read it.
    failByDrop = False  # noqa: N815 - autobahn's name
    closeHandshakeTimeout = CLOSE_PATIENCE  # noqa: N815 - autobahn's name
    maxMessagePayloadSize: int  # noqa: N815 - autobahn's name

    def onMessage(self, payload: bytes, isBinary: bool) -> None:  # noqa: N802, N803 - autobahn's names
        super().onMessage(payload, isBinary)
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
class Flow:
    """The traffic light of one socket. Twisted switches `open` as the socket's buffer fills and drains."""

    def __init__(self, protocol: FlowControlledProtocol) -> None:
        self._protocol = protocol
        self.open = asyncio.Event()
        self.open.set()

    def frame_taken(self) -> None:
        """The application has dealt with a frame; let the client go on where it was stopped."""
        protocol = self._protocol
        if protocol.paused and protocol.application_queue.qsize() < FRAMES_AHEAD // 2:
            protocol.paused = False
            protocol.transport.resumeProducing()

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.open.clear()

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.open.set()

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        self.open.set()


class ParleyServer(Server):  # type: ignore[misc]
    """The `web` process's server. `before_shutdown` runs on SIGTERM, while every socket is still served."""

    def __init__(self, *args: Any, before_shutdown: Callable[[], Awaitable[None]], **options: Any) -> None:
        limits = {"websocket_max_message_size": MAX_FRAME_BYTES, "websocket_max_frame_size": MAX_FRAME_BYTES}
        super().__init__(*args, server_name="parley", websocket_timeout=-1, **limits, **options)
        self._before_shutdown = before_shutdown

    def run(self) -> None:
        WebSocketFactory.protocol = FlowControlledProtocol
        super().run()

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        if isinstance(protocol, FlowControlledProtocol):
            flow = Flow(protocol)
            protocol.transport.unregisterProducer()
            protocol.transport.registerProducer(flow, True)
            scope["extensions"] = {FLOW: flow}
        return super().create_application(protocol, scope)

    def kill_all_applications(self) -> Any:
        farewell = Deferred.fromFuture(asyncio.ensure_future(self._before_shutdown()))
        farewell.addErrback(lambda failure: log.error("the gateway did not end well: %s", failure))
        farewell.addCallback(lambda _: Server.kill_all_applications(self))
        return farewell
