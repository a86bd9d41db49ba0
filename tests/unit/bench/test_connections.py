import pytest

from bench.connections import ServerErrors, require_open
from bench.timeline import InvalidRun
from bench.websocket import WebSocket


def ready_socket() -> WebSocket:
    socket = WebSocket(lambda _frame: None)
    socket.ready.set_result(b"connected")
    return socket


class TestConnections:
    async def test_a_connection_closed_by_the_server_fails_the_run(self) -> None:
        sockets = {number: ready_socket() for number in range(3)}
        require_open(sockets)
        sockets[1].closed.set_result(4408)
        with pytest.raises(InvalidRun, match="closed 1 of 3 connections, the first with 4408"):
            require_open(sockets)

    async def test_an_error_frame_fails_the_run(self) -> None:
        errors = ServerErrors()
        errors.read(b'{"type":"heartbeat_ack"}')
        errors.require_none()
        errors.read(b'{"type":"error","code":"internal"}')
        with pytest.raises(InvalidRun, match="internal"):
            errors.require_none()
