"""daphne with Parley's sockets and a gentle end: on SIGTERM the gateway says goodbye before daphne ends the rest."""

import foundation.server.twisted  # isort: skip  # noqa: F401 - before anything else can install a reactor

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from daphne.server import Server
from daphne.ws_protocol import WebSocketFactory
from twisted.internet.defer import Deferred

from foundation.kernel.garbage import search_seldom
from foundation.server.autobahn import ParleySocket, SocketLine
from foundation.server.extension import LINE

log = logging.getLogger(__name__)

MAX_FRAME_BYTES = 16 * 1024


class ParleyServer(Server):  # type: ignore[misc]
    """The `web` process's server. `before_shutdown` runs on SIGTERM, while every socket is still served."""

    def __init__(self, *args: Any, before_shutdown: Callable[[], Awaitable[None]], **options: Any) -> None:
        limits = {"websocket_max_message_size": MAX_FRAME_BYTES, "websocket_max_frame_size": MAX_FRAME_BYTES}
        super().__init__(*args, server_name="parley", websocket_timeout=-1, **limits, **options)
        self._before_shutdown = before_shutdown

    def run(self) -> None:
        WebSocketFactory.protocol = ParleySocket
        search_seldom()
        super().run()

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        if isinstance(protocol, ParleySocket):
            line = SocketLine(protocol)
            protocol.transport.unregisterProducer()
            protocol.transport.registerProducer(line, True)
            scope["extensions"] = {LINE: line}
        return super().create_application(protocol, scope)

    def kill_all_applications(self) -> Any:
        farewell = Deferred.fromFuture(asyncio.ensure_future(self._before_shutdown()))
        farewell.addErrback(lambda failure: log.error("the gateway did not end well: %s", failure))
        farewell.addCallback(lambda _: Server.kill_all_applications(self))
        return farewell
