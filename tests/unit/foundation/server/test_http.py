"""HTTP under daphne: what its parts are told before a request reaches the application."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from twisted.internet.testing import StringTransport
from twisted.web import http

from foundation.rest.addresses import ClientAddress
from foundation.server.connections import ConnectionsPerAddress
from foundation.server.http import HttpLimits, ParleyChannel, ParleyFactory


class Server:
    """What a factory needs of daphne's server. Keeps the scopes of its applications."""

    proxy_forwarded_address_header = None
    root_path = ""
    request_buffer_size = 8192

    def __init__(self, *, trusted: tuple[str, ...] = (), connections: int = 1) -> None:
        self.scopes: list[dict[str, Any]] = []
        self.limits = HttpLimits(
            body_bytes=100,
            request_seconds=30,
            response_seconds=30,
            connections=ConnectionsPerAddress(connections, is_exempt=lambda _: False),
            client_address=ClientAddress(trusted),
        )

    def protocol_connected(self, protocol: Any) -> None:
        """daphne's name."""

    protocol_disconnected = protocol_connected

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        self.scopes.append(scope)
        return SimpleNamespace(put_nowait=lambda event: None)


class Transport(StringTransport):
    protocol = None

    def abortConnection(self) -> None:  # noqa: N802 - Twisted's name
        self.connected = False


def accept(server: Server) -> ParleyChannel | None:
    channel = ParleyFactory(server).buildProtocol(SimpleNamespace(host="192.168.1.1"))
    if channel is not None:
        channel.callLater = lambda *_: SimpleNamespace(cancel=lambda: None, reset=lambda _: None)
        channel.makeConnection(Transport())  # type: ignore[no-untyped-call]
    return channel


def receive(server: Server, *lines: bytes) -> dict[bytes, bytes]:
    """The headers of a request as the application gets them."""
    channel = accept(server)
    assert channel is not None
    channel.dataReceived(b"\r\n".join([b"GET /healthz HTTP/1.1", b"Host: a", *lines, b"", b""]))
    (scope,) = server.scopes
    assert scope["root_path"] == ""
    return dict(scope["headers"])


class TestHeaders:
    CLAIMS = (b"X-Forwarded-For: 203.0.113.1", b"X-Forwarded-Proto: https", b"Forwarded: for=203.0.113.1")

    def test_those_of_a_proxy_are_dropped_if_a_client_sends_them(self) -> None:
        assert receive(Server(), *self.CLAIMS, b"X-Own: kept").keys() == {b"host", b"x-own"}

    def test_those_of_our_proxies_are_kept(self) -> None:
        headers = receive(Server(trusted=("192.168.0.0/16",), connections=9), *self.CLAIMS)
        assert headers[b"x-forwarded-for"] == b"203.0.113.1"
        assert headers[b"x-forwarded-proto"] == b"https"

    @pytest.mark.parametrize("trusted", [(), ("192.168.0.0/16",)])
    def test_nobody_chooses_the_root_path(self, trusted: tuple[str, ...]) -> None:
        server = Server(trusted=trusted, connections=9)
        assert receive(server, b"Daphne-Root-Path: /admin").keys() == {b"host"}


class TestRequests:
    def test_forms_are_never_parsed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        parse = Mock(return_value={})
        monkeypatch.setattr(http, "parse_qs", parse)
        channel = accept(Server())
        assert channel is not None
        kind = b"Content-Type: application/x-www-form-urlencoded\r\n"
        channel.dataReceived(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n" + kind + b"\r\na=1")
        assert channel.requests[0].content is not None
        parse.assert_not_called()

    def test_a_body_is_never_a_file(self) -> None:
        channel = accept(Server())
        assert channel is not None
        channel.dataReceived(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        assert channel.requests[0].content.getvalue() == b"abc"

    def test_nothing_behind_a_refused_request_is_parsed(self) -> None:
        server = Server()
        channel = accept(server)
        assert channel is not None
        channel.dataReceived(b"POST / HTTP/1.1\r\nContent-Length: 101\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert channel.transport.value().startswith(b"HTTP/1.1 413 ")
        assert channel.transport.producerState != "producing"
        channel.dataReceived(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert server.scopes == []


class TestFactory:
    def test_a_connection_too_many_gets_no_channel_and_a_lost_one_gives_its_place_back(self) -> None:
        server = Server(connections=1)
        first = accept(server)
        assert first is not None
        assert accept(server) is None
        first.connectionLost(None)
        assert accept(server) is not None

    def test_http_2_is_never_negotiated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(http, "H2_ENABLED", True)
        assert ParleyFactory(Server()).acceptableProtocols() == [b"http/1.1"]
        assert type(accept(Server())) is ParleyChannel
