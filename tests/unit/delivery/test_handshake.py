"""The handshake's token and origin, and the limits of a socket."""

from typing import Any

import pytest

from delivery.gateway import handshake
from delivery.gateway.abuse import BAD_FRAMES_IN_A_ROW, MAX_REFUSALS, AbuseLimits
from delivery.gateway.handshake import BadHandshake
from foundation.rest.origins import AllowedOrigins


def scope(subprotocols: list[str] | None = None, **headers: str) -> dict[str, Any]:
    pairs = [(name.encode(), value.encode("latin1")) for name, value in headers.items()]
    return {"headers": pairs, "subprotocols": subprotocols or []}


ORIGINS = AllowedOrigins(["http://127.0.0.1:*", "https://*.parley.example"])
HOSTS = ["chat.example", "[::1]"]


class TestCredentials:
    def test_the_header(self) -> None:
        assert handshake.parse(scope(authorization="Bearer abc")).token == "abc"

    def test_the_subprotocol_for_browsers(self) -> None:
        hello = handshake.parse(scope(["parley.v1", "bearer.abc.def"]))
        assert (hello.token, hello.subprotocol) == ("abc.def", "parley.v1")

    @pytest.mark.parametrize("header", ["", "Basic abc", "Bearer", "Bearer "])
    def test_nothing_else_is_a_credential(self, header: str) -> None:
        assert handshake.parse(scope(["parley.v1"], authorization=header)).token is None


class TestTrace:
    def test_a_traceparent_is_taken(self) -> None:
        header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        assert handshake.parse(scope(traceparent=header)).traceparent == header

    @pytest.mark.parametrize("header", ["", "\xff", "00-1-2-3"])
    def test_a_malformed_one_is_ignored(self, header: str) -> None:
        assert handshake.parse(scope(traceparent=header)).traceparent is None
        assert handshake.parse(scope()).traceparent is None


class TestOrigins:
    @pytest.mark.parametrize(
        ("headers", "allowed"),
        [
            ({"host": "chat.example"}, True),
            ({"host": "chat.example", "origin": "https://chat.example"}, True),
            ({"host": "chat.example", "origin": "http://127.0.0.1:3000"}, True),
            ({"host": "chat.example", "origin": "https://evil.example"}, False),
            ({"host": "chat.example", "origin": "null"}, False),
            ({"host": "chat.example:443", "origin": "https://chat.example"}, True),
            ({"host": "chat.example", "origin": "HTTPS://Chat.Example:443"}, True),
            ({"host": "chat.example", "origin": "https://chat.example:8443"}, False),
            ({"host": "chat.example", "origin": "http://127.0.0.1"}, True),
            ({"host": "chat.example", "origin": "https://127.0.0.1:3000"}, False),
            ({"host": "chat.example", "origin": "http://127.0.0.1.evil.example:1"}, False),
            ({"host": "chat.example", "origin": "https://app.parley.example"}, True),
            ({"host": "chat.example", "origin": "https://app.parley.example:444"}, False),
            ({"host": "chat.example", "origin": "https://evil.example", "x-forwarded-proto": "https"}, False),
            ({"host": "chat.example", "origin": "http://chat.example", "x-forwarded-proto": "https"}, False),
            ({"host": "rebound.example", "origin": "http://rebound.example"}, False),
            ({"host": "[::1]:8000", "origin": "http://[::1]:8000"}, True),
            ({"origin": "https://chat.example"}, False),
        ],
    )
    def test_an_origin_is_this_host_or_an_allowed_one(self, headers: dict[str, str], allowed: bool) -> None:
        assert handshake.parse(scope(None, **headers)).is_from(ORIGINS, HOSTS) is allowed

    @pytest.mark.parametrize(
        "headers",
        [
            {"host": "chat.example", "origin": "http://[::1"},
            {"origin": ""},
            {"origin": "https://user@chat.example"},
            {"origin": "https://chat.example/path"},
            {"origin": "https://chat.example\u00e9"},
            {"origin": "https://chat.example:123456"},
            {"host": "chat example"},
            {"host": "[::1"},
            {"host": "chat.example:port"},
        ],
    )
    def test_a_malformed_origin_or_host_is_named_as_such(self, headers: dict[str, str]) -> None:
        with pytest.raises(BadHandshake):
            handshake.parse(scope(None, **headers)).is_from(ORIGINS, HOSTS)


class TestAbuseLimits:
    def test_twenty_bad_frames_in_a_row_are_too_many(self) -> None:
        limits = AbuseLimits()
        assert not any(limits.bad_frame() for _ in range(BAD_FRAMES_IN_A_ROW - 1))
        limits.bad_frames = 0
        assert not any(limits.bad_frame() for _ in range(BAD_FRAMES_IN_A_ROW - 1))
        assert limits.bad_frame()

    def test_only_a_client_that_keeps_ignoring_refusals_is_closed(self) -> None:
        limits = AbuseLimits()
        assert not any(limits.refusal(number * 0.02) for number in range(3 * MAX_REFUSALS))
        assert any(limits.refusal(100 + number * 0.001) for number in range(MAX_REFUSALS + 1))
