"""daphne with Parley's HTTP, sockets and shutdown.

On SIGTERM a port that other processes share is left to them, then the gateway closes its sockets. A port of this
process alone is served to the end: there is nobody else to take its connections.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import daphne.server
from daphne.server import Server
from daphne.ws_protocol import WebSocketFactory
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred

from foundation.kernel.tuning import tune_gc
from foundation.server.autobahn import FastFlowControl, FastSocket
from foundation.server.extension import SOCKET_EXTENSION
from foundation.server.http import CompleteHeaders, HttpLimits, ParleyFactory
from foundation.server.listening import is_shared
from foundation.server.sockets import FlowControl, ParleySocket

log = logging.getLogger(__name__)

MAX_FRAME_BYTES = 16 * 1024
MIN_CHECK_SECONDS = 1.0
# In a mass reconnect handshakes queue up. A client that is turned away comes back and costs the same again.
HANDSHAKE_SECONDS = 20


class ParleyServer(Server):  # type: ignore[misc]
    """The server of a `web` process. `before_shutdown` runs on SIGTERM, while every socket is still served.

    daphne looks at all connections every second to find applications that ended and sockets to ping. This server has
    a callback for each application and a timer for each socket instead.
    """

    def __init__(
        self,
        *args: Any,
        limits: HttpLimits,
        complete_headers: CompleteHeaders,
        before_shutdown: Callable[[], Awaitable[None]],
        fast_sockets: bool,
        **options: Any,
    ) -> None:
        sizes = {"websocket_max_message_size": MAX_FRAME_BYTES, "websocket_max_frame_size": MAX_FRAME_BYTES}
        timeouts = {"websocket_timeout": -1, "websocket_handshake_timeout": HANDSHAKE_SECONDS}
        super().__init__(*args, server_name="parley", **timeouts, **sizes, **options)
        self.limits = limits
        self.complete_headers = complete_headers
        self._before_shutdown = before_shutdown
        self._fast_sockets = fast_sockets
        self._shared_ports: list[Any] = []

    def run(self) -> None:
        daphne.server.HTTPFactory = ParleyFactory
        WebSocketFactory.protocol = FastSocket if self._fast_sockets else ParleySocket
        tune_gc()
        super().run()

    def listen_success(self, port: Any) -> None:
        super().listen_success(port)
        if is_shared(port.socket):
            self._shared_ports.append(port)

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        if isinstance(protocol, ParleySocket):
            extension = (FastFlowControl if self._fast_sockets else FlowControl)(protocol)
            protocol.transport.unregisterProducer()
            protocol.transport.registerProducer(extension, True)
            scope["extensions"] = {SOCKET_EXTENSION: extension}
            self._set_timer(protocol, self.ping_interval, self._check_socket)
        queue = super().create_application(protocol, scope)
        application = self.connections[protocol]["application_instance"]
        application.add_done_callback(lambda ended: self._application_ended(protocol, ended))
        return queue

    def protocol_disconnected(self, protocol: Any) -> None:
        details = self.connections.get(protocol)
        if details is None or "disconnected" in details:
            return
        details["disconnected"] = time.time()
        if "application_instance" in details:
            self._set_timer(protocol, self.application_close_timeout, self._cancel_application)
        else:
            self._forget(protocol)

    def kill_all_applications(self) -> Any:
        shutdown = DeferredList([maybeDeferred(port.stopListening) for port in self._shared_ports])
        if self._shared_ports:
            log.info("no new connections are accepted: the port is left to the processes that share it")
        shutdown.addCallback(lambda _: Deferred.fromFuture(asyncio.ensure_future(self._before_shutdown())))
        shutdown.addErrback(lambda failure: log.error("the gateway did not shut down cleanly: %s", failure))
        shutdown.addCallback(lambda _: self._cancel_all_applications())
        return shutdown

    def application_checker(self) -> None:
        """Nothing to look for."""

    def timeout_checker(self) -> None:
        """Nothing to look for."""

    def _check_socket(self, socket: ParleySocket) -> None:
        """Ping a socket that is silent; refuse one whose application has not accepted it in time."""
        socket.check_timeouts()
        if "disconnected" not in self.connections[socket]:
            silent = time.time() - socket.last_ping
            self._set_timer(socket, max(self.ping_interval - silent, MIN_CHECK_SECONDS), self._check_socket)

    def _application_ended(self, protocol: Any, application: "asyncio.Future[None]") -> None:
        error = None if application.cancelled() else application.exception()
        if error is not None:
            log.error("unforeseen failure in an application", exc_info=error)
        if (details := self.connections.get(protocol)) is None:
            return
        del details["application_instance"]
        if "disconnected" in details:
            self._forget(protocol)
        elif error is not None:
            protocol.handle_exception(error)

    def _cancel_application(self, protocol: Any) -> None:
        log.warning("an application had not ended %s s after its client left", self.application_close_timeout)
        self.connections[protocol]["application_instance"].cancel()

    def _cancel_all_applications(self) -> Any:
        applications = [details.get("application_instance") for details in self.connections.values()]
        running = [application for application in applications if application is not None]
        for application in running:
            application.cancel()
        return Deferred.fromFuture(asyncio.gather(*running, return_exceptions=True))

    def _set_timer(self, protocol: Any, seconds: float, call: Callable[[Any], None]) -> None:
        """Each connection has one timer at a time."""
        details = self.connections[protocol]
        if "timer" in details:
            details["timer"].cancel()
        details["timer"] = asyncio.get_running_loop().call_later(seconds, call, protocol)

    def _forget(self, protocol: Any) -> None:
        details = self.connections.pop(protocol)
        if "timer" in details:
            details["timer"].cancel()
