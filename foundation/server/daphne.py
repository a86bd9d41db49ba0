"""daphne with Parley's sockets and a graceful shutdown: on SIGTERM the gateway closes its sockets first."""

import foundation.server.twisted  # isort: skip  # noqa: F401 - before anything else can install a reactor

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from daphne.server import Server
from daphne.ws_protocol import WebSocketFactory
from twisted.internet.defer import Deferred

from foundation.kernel.tuning import tune_gc
from foundation.server.autobahn import FastFlowControl, FastSocket
from foundation.server.extension import SOCKET_EXTENSION
from foundation.server.sockets import FlowControl, ParleySocket

log = logging.getLogger(__name__)

MAX_FRAME_BYTES = 16 * 1024


class ParleyServer(Server):  # type: ignore[misc]
    """The server of a `web` process. `before_shutdown` runs on SIGTERM, while every socket is still served."""

    def __init__(
        self, *args: Any, before_shutdown: Callable[[], Awaitable[None]], fast_sockets: bool, **options: Any
    ) -> None:
        limits = {"websocket_max_message_size": MAX_FRAME_BYTES, "websocket_max_frame_size": MAX_FRAME_BYTES}
        super().__init__(*args, server_name="parley", websocket_timeout=-1, **limits, **options)
        self._before_shutdown = before_shutdown
        self._fast_sockets = fast_sockets

    def run(self) -> None:
        WebSocketFactory.protocol = FastSocket if self._fast_sockets else ParleySocket
        tune_gc()
        super().run()

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        if isinstance(protocol, ParleySocket):
            extension = (FastFlowControl if self._fast_sockets else FlowControl)(protocol)
            protocol.transport.unregisterProducer()
            protocol.transport.registerProducer(extension, True)
            scope["extensions"] = {SOCKET_EXTENSION: extension}
        return super().create_application(protocol, scope)

    def kill_all_applications(self) -> Any:
        shutdown = Deferred.fromFuture(asyncio.ensure_future(self._before_shutdown()))
        shutdown.addErrback(lambda failure: log.error("the gateway did not shut down cleanly: %s", failure))
        shutdown.addCallback(lambda _: Server.kill_all_applications(self))
        return shutdown
