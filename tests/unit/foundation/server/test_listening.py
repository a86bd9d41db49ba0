"""Processes that share a port, each with a socket of its own."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from engines.ports import LOOPBACK, ReservedPort
from foundation.server.listening import describe_endpoint, is_shared, listens_on_loopback, share_endpoint

CONNECTIONS = 64


@pytest.fixture
def port() -> Iterator[int]:
    with ReservedPort() as reserved:
        reserved.hand_over()
        yield reserved.number


def adopt(endpoint: str) -> socket.socket:
    """The listening socket that an endpoint describes."""
    kind, _, fileno = endpoint.partition(":fileno=")
    assert kind == "fd"
    return socket.socket(fileno=int(fileno))


def accept_waiting(listener: socket.socket) -> int:
    listener.setblocking(False)
    accepted = 0
    while True:
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            return accepted
        connection.close()
        accepted += 1


def test_connections_spread_over_the_sockets_that_share_a_port(port: int) -> None:
    with ExitStack() as stack:
        listeners = [stack.enter_context(adopt(share_endpoint(LOOPBACK, port))) for _ in range(2)]
        for _ in range(CONNECTIONS):
            stack.enter_context(socket.create_connection((LOOPBACK, port)))
        shares = [accept_waiting(listener) for listener in listeners]
    assert sum(shares) == CONNECTIONS
    assert min(shares) > 0


def test_a_port_is_shared_only_by_those_that_share_it(port: int) -> None:
    with adopt(share_endpoint(LOOPBACK, port)), pytest.raises(OSError, match="Address already in use"):
        socket.create_server((LOOPBACK, port))


def test_whether_a_port_is_shared_can_be_told(port: int) -> None:
    with adopt(share_endpoint(LOOPBACK, port)) as shared, socket.create_server((LOOPBACK, 0)) as alone:
        assert (is_shared(shared), is_shared(alone)) == (True, False)


def test_a_port_that_another_listens_on_alone_cannot_be_shared() -> None:
    with socket.create_server((LOOPBACK, 0)) as alone, pytest.raises(OSError, match="Address already in use"):
        share_endpoint(LOOPBACK, alone.getsockname()[1])


def test_a_colon_in_an_address_is_escaped() -> None:
    assert describe_endpoint("::1", 8000) == "tcp:port=8000:interface=\\:\\:1:backlog=2048"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_loopback_is_recognised(host: str) -> None:
    assert listens_on_loopback(host)
