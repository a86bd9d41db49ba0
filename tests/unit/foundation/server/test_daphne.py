"""What the server remembers of its connections, and the order of its shutdown."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed

from foundation.server.daphne import ParleyServer
from foundation.server.http import Header


class Protocol:
    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def handle_exception(self, error: BaseException) -> None:
        self.errors.append(error)


class Application:
    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.ended


def no_headers(*_: object) -> list[Header]:
    return []


async def no_shutdown() -> None:
    """Nothing to close."""


@pytest.fixture
async def application() -> Application:
    return Application()


@pytest.fixture
async def server(application: Application) -> ParleyServer:
    return make_server(application)


def make_server(
    application: Application, *, before_shutdown: Callable[[], Awaitable[None]] = no_shutdown
) -> ParleyServer:
    limits: Any = None
    server = ParleyServer(
        application,
        endpoints=["tcp:0"],
        limits=limits,
        complete_headers=no_headers,
        before_shutdown=before_shutdown,
        fast_sockets=True,
    )
    server.connections = {}
    return server


async def let_tasks_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Port:
    """A listening port of Twisted."""

    def __init__(self, listener: socket.socket, closed: list[object]) -> None:
        self.socket = listener
        self._closed = closed

    def stopListening(self) -> Deferred[None]:  # noqa: N802 - Twisted's name
        self._closed.append(self.socket)
        return succeed(None)


class TestShutdown:
    async def test_a_shared_port_is_left_to_others_before_the_gateway_closes_its_sockets(
        self, application: Application
    ) -> None:
        closed: list[object] = []

        async def close_sockets() -> None:
            closed.append("sockets")

        server = make_server(application, before_shutdown=close_sockets)
        with socket.create_server(("127.0.0.1", 0), reuse_port=True) as shared, socket.socket() as admin:
            for listener in (shared, admin):
                server.listen_success(Port(listener, closed))
            await server.kill_all_applications().asFuture(asyncio.get_running_loop())
        assert closed == [shared, "sockets"]


class TestConnections:
    async def test_one_is_forgotten_when_client_and_application_have_ended(
        self, server: ParleyServer, application: Application
    ) -> None:
        protocol = Protocol()
        server.protocol_connected(protocol)
        server.create_application(protocol, {})
        server.protocol_disconnected(protocol)
        assert protocol in server.connections
        application.ended.set_result(None)
        await let_tasks_run()
        assert server.connections == {}
        server.protocol_disconnected(protocol)

    async def test_a_request_that_never_arrived_whole_is_forgotten_at_once(self, server: ParleyServer) -> None:
        protocol = Protocol()
        server.protocol_connected(protocol)
        server.protocol_disconnected(protocol)
        assert server.connections == {}

    async def test_a_failure_of_the_application_is_told_to_the_client(
        self, server: ParleyServer, application: Application
    ) -> None:
        protocol, error = Protocol(), ValueError("a bug")
        server.protocol_connected(protocol)
        server.create_application(protocol, {})
        application.ended.set_exception(error)
        await let_tasks_run()
        assert protocol.errors == [error]

    async def test_an_application_that_outlives_its_client_is_cancelled(
        self, server: ParleyServer, application: Application
    ) -> None:
        server.application_close_timeout = 0.01
        protocol = Protocol()
        server.protocol_connected(protocol)
        server.create_application(protocol, {})
        server.protocol_disconnected(protocol)
        async with asyncio.timeout(10):
            while server.connections:  # noqa: ASYNC110 - the timer is the server's own
                await asyncio.sleep(0.01)
        assert application.ended.cancelled()

    async def test_a_half_sent_request_does_not_disturb_the_shutdown(
        self, server: ParleyServer, application: Application
    ) -> None:
        half, whole = Protocol(), Protocol()
        server.protocol_connected(half)
        server.protocol_connected(whole)
        server.create_application(whole, {})
        await server.kill_all_applications().asFuture(asyncio.get_running_loop())
        assert application.ended.cancelled()
