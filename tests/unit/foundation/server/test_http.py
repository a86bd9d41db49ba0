"""HTTP under daphne: what its parts are told before a request reaches the application."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from twisted.internet.testing import StringTransport
from twisted.web import http

from foundation.rest.addresses import ClientAddress
from foundation.server.bodies import ADDRESS_PART, BodyBudget
from foundation.server.connections import ConnectionsPerAddress
from foundation.server.edge import Edge, EdgeOptions
from foundation.server.http import HttpLimits, ParleyChannel, ParleyFactory


class Server:
    """What a factory needs of daphne's server. Keeps the scopes of its applications."""

    proxy_forwarded_address_header = None
    root_path = ""
    request_buffer_size = 8192
    server_name = "parley"
    edge = Edge(Mock(), EdgeOptions(allowed_hosts=["a"], allowed_origins=["https://app.example"]))
    complete_headers = edge.complete

    def __init__(self, *, trusted: tuple[str, ...] = (), connections: int = 1, bodies: int = 10_000) -> None:
        self.scopes: list[dict[str, Any]] = []
        self.limits = HttpLimits(
            body_bytes=100,
            request_seconds=30,
            response_seconds=30,
            bodies=BodyBudget(bodies, is_exempt=lambda address: address == "127.0.0.1"),
            connections=ConnectionsPerAddress(connections, is_exempt=lambda _: False),
            client_address=ClientAddress(trusted),
        )

    def protocol_connected(self, protocol: Any) -> None:
        """daphne's name."""

    protocol_disconnected = protocol_connected

    def log_action(self, *details: Any) -> None:
        """daphne's name."""

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        self.scopes.append(scope)
        return SimpleNamespace(put_nowait=lambda event: None)


class Transport(StringTransport):
    protocol = None

    def abortConnection(self) -> None:  # noqa: N802 - Twisted's name
        self.connected = False


def accept(server: Server, *, host: str = "192.168.1.1") -> ParleyChannel | None:
    peer = SimpleNamespace(host=host)
    channel = ParleyFactory(server).buildProtocol(peer)
    if channel is not None:
        channel.callLater = lambda *_: SimpleNamespace(cancel=lambda: None, reset=lambda _: None)
        channel.makeConnection(Transport(peerAddress=peer))  # type: ignore[no-untyped-call]
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

    @pytest.mark.parametrize("line", [b"GET /?", b"GET / HTTP/1.1\r\nX-Long: "])
    @pytest.mark.parametrize("end", [b"", b"\r\n\r\n"])
    def test_a_line_that_is_too_long_is_answered_before_its_end(self, line: bytes, end: bytes) -> None:
        server = Server()
        channel = accept(server)
        assert channel is not None
        channel.dataReceived(line + b"a" * 70_000 + end)
        assert channel.transport.value().startswith(b"HTTP/1.1 400 ")
        assert server.scopes == []

    @pytest.mark.parametrize("line", [b"X: \x0b", b"Upgrade: websocket\r\nSec-WebSocket-Protocol: \xff"])
    def test_of_malformed_ones_a_connection_gets_one_answer(self, line: bytes) -> None:
        channel = accept(Server())
        assert channel is not None
        channel.dataReceived((b"GET / HTTP/1.1\r\nHost: a\r\n" + line + b"\r\n\r\n") * 9)
        answer = channel.transport.value()
        assert answer.count(b"HTTP/1.1 400 ") == answer.count(b"HTTP/1.1 ") == 1
        assert b"\r\nConnection: close\r\n" in answer
        assert channel.transport.disconnecting

    def test_one_whose_content_type_has_thousands_of_parameters_reaches_no_application(self) -> None:
        server = Server(connections=2)
        for kind, expected in {b"a/b; c=d": None, b"a/b" + b";a=b" * 4_000: 400}.items():
            channel = accept(server)
            assert channel is not None
            channel.dataReceived(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Type: " + kind + b"\r\n\r\n")
            assert status(channel) == expected
        assert len(server.scopes) == 1

    def test_a_pipelined_one_waits_until_the_client_reads(self) -> None:
        server = Server()
        channel = accept(server)
        assert channel is not None
        channel.dataReceived(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
        channel.pauseProducing()
        finish(channel)
        assert len(server.scopes) == 1
        assert channel.transport.producerState == "paused"
        channel.resumeProducing()
        assert len(server.scopes) == 2
        assert channel.transport.producerState == "producing"
        finish(channel)
        assert len(server.scopes) == 3


def finish(channel: ParleyChannel) -> None:
    """Send the whole answer to the request that is being served."""
    request = channel.requests[0]
    request.handle_reply({"type": "http.response.start", "status": 200, "headers": []})
    request.handle_reply({"type": "http.response.body", "body": b"answer"})


class TestAnswersWithoutAnApplication:
    """A page of an allowed origin reads them as it does all others."""

    @pytest.mark.parametrize(
        ("request_", "status"),
        [
            (b"POST / HTTP/1.1\r\nContent-Length: 101", 413),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked", 413),
            (b"GET / HTTP/1.1\r\nSec-WebSocket-Protocol: \xff", 400),
        ],
    )
    def test_they_have_the_headers_of_every_answer(self, request_: bytes, status: int) -> None:
        channel = accept(Server())
        assert channel is not None
        asked = b"\r\nHost: a\r\nOrigin: https://app.example\r\nX-Request-ID: asked-1\r\n\r\n"
        channel.dataReceived(request_ + asked + b"65\r\n" + b"a" * 101)
        head, _, body = channel.transport.value().partition(b"\r\n\r\n")
        first, *lines = head.decode().lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        assert first.startswith(f"http/1.1 {status} ")
        assert headers["access-control-allow-origin"] == "https://app.example"
        assert headers["x-request-id"] == "asked-1"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["content-type"] == "application/problem+json"
        assert len(lines) == len(headers)
        assert f'"status":{status}'.encode() in body.replace(b" ", b"")

    def test_so_has_one_to_what_is_no_request(self) -> None:
        channel = accept(Server())
        assert channel is not None
        channel.dataReceived(b"nonsense\r\n\r\n")
        assert b"x-request-id: " in channel.transport.value()
        assert b"access-control-allow-origin" not in channel.transport.value()


def send(server: Server, *pieces: bytes, host: str = "192.168.1.1", path: str = "/", hops: str = "") -> ParleyChannel:
    """A connection whose request has a body of 90 bytes, of which these have arrived."""
    channel = accept(server, host=host)
    assert channel is not None
    lines = [f"POST {path} HTTP/1.1", "Host: a", "Content-Length: 90", *([f"X-Forwarded-For: {hops}"] if hops else [])]
    channel.dataReceived("\r\n".join([*lines, "", ""]).encode())
    for piece in pieces:
        channel.dataReceived(piece)
    return channel


def status(channel: ParleyChannel) -> int | None:
    """Of the answer, if there is one."""
    line = channel.transport.value().partition(b"\r\n")[0]
    return int(line.split()[1]) if line else None


class TestBodies:
    ROOM = 10 * 90 * ADDRESS_PART
    PROXY = ("192.168.0.0/16",)

    def test_those_of_an_address_are_refused_beyond_its_part(self) -> None:
        server = Server(connections=99, bodies=self.ROOM)
        held = [send(server, b"a" * 89) for _ in range(10)]
        assert {status(channel) for channel in held} == {None}
        refused = send(server, b"a" * 89)
        assert status(refused) == 429
        assert b"Retry-After: 1" in refused.transport.value()
        assert status(send(server, b"a" * 89, host="192.0.2.1")) is None

    def test_those_of_all_are_refused_beyond_the_total(self) -> None:
        server = Server(connections=99, bodies=self.ROOM)
        for number in range(10 * ADDRESS_PART):
            assert status(send(server, b"a" * 60, b"a" * 29, host=f"192.0.2.{number}")) is None
        refused = send(server, b"a" * 81, host="198.51.100.1")
        assert status(refused) == 503
        assert b"Retry-After: 1" in refused.transport.value()

    def test_what_has_not_arrived_takes_nothing(self) -> None:
        server = Server(connections=99, bodies=self.ROOM)
        for _ in range(50):
            assert status(send(server, b"a")) is None

    @pytest.mark.parametrize("rest", [b"", b"a"])
    def test_a_lost_connection_gives_its_bytes_back(self, rest: bytes) -> None:
        server = Server(connections=99, bodies=self.ROOM)
        for _ in range(50):
            channel = send(server, b"a" * 89, rest)
            assert status(channel) is None
            channel.connectionLost(None)
        assert server.limits.bodies._held == 0
        assert not server.limits.bodies._held_by

    def test_an_exempt_address_counts_in_total_only(self) -> None:
        server = Server(connections=99, bodies=self.ROOM)
        for _ in range(10 * ADDRESS_PART):
            assert status(send(server, b"a" * 89, host="127.0.0.1")) is None
        assert status(send(server, b"a" * 81, host="127.0.0.1")) == 503

    def test_behind_a_proxy_an_address_with_too_many_connections_is_refused_before_its_body(self) -> None:
        server = Server(trusted=self.PROXY, connections=100)
        slots = [server.limits.connections.take("203.0.113.1") for _ in range(98)]
        held = [send(server, hops="203.0.113.1") for _ in range(2)]
        assert {status(channel) for channel in held} == {None}
        refused = send(server, hops="203.0.113.1")
        assert status(refused) == 429
        assert status(send(server, hops="203.0.113.2")) is None
        held[0].connectionLost(None)
        assert status(send(server, hops="203.0.113.1")) is None
        assert all(slots)

    def test_behind_a_proxy_a_forwarded_address_has_its_own_part(self) -> None:
        server = Server(trusted=self.PROXY, connections=99, bodies=self.ROOM)
        for _ in range(10):
            assert status(send(server, b"a" * 89, hops="203.0.113.1")) is None
        assert status(send(server, b"a" * 89, hops="203.0.113.1")) == 429
        assert status(send(server, b"a" * 89, hops="203.0.113.2")) is None

    def test_behind_a_proxy_probes_are_answered_whatever_their_address_holds(self) -> None:
        server = Server(trusted=self.PROXY, connections=1)
        server.limits.connections.take("203.0.113.1")
        for path, answer in (("/healthz", None), ("/", 429)):
            server.limits.connections._held.pop("192.168.1.1", None)
            channel = accept(server)
            assert channel is not None
            channel.dataReceived(f"GET {path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.1\r\n\r\n".encode())
            assert status(channel) == answer
        assert [scope["path"] for scope in server.scopes] == ["/healthz"]


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
