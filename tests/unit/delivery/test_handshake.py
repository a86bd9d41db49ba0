"""The handshake's token and origin, and the limits of a socket."""

from typing import Any

import pytest

from delivery.gateway import handshake
from delivery.gateway.consumer import BAD_FRAMES_IN_A_ROW, FRAME_BURST, MAX_REFUSALS, AbuseLimits
from foundation.kernel.errors import RateLimited


def scope(subprotocols: list[str] | None = None, **headers: str) -> dict[str, Any]:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {"headers": pairs, "subprotocols": subprotocols or []}


class TestCredentials:
    def test_the_header(self) -> None:
        assert handshake.parse(scope(authorization="Bearer abc")).token == "abc"

    def test_the_subprotocol_for_browsers(self) -> None:
        hello = handshake.parse(scope(["parley.v1", "bearer.abc.def"]))
        assert (hello.token, hello.subprotocol) == ("abc.def", "parley.v1")

    @pytest.mark.parametrize("header", ["", "Basic abc", "Bearer", "Bearer "])
    def test_nothing_else_is_a_credential(self, header: str) -> None:
        assert handshake.parse(scope(["parley.v1"], authorization=header)).token is None


class TestOrigins:
    @pytest.mark.parametrize(
        ("headers", "allowed"),
        [
            ({"host": "chat.example"}, True),
            ({"host": "chat.example", "origin": "https://chat.example"}, True),
            ({"host": "chat.example", "origin": "http://127.0.0.1:3000"}, True),
            ({"host": "chat.example", "origin": "https://evil.example"}, False),
            ({"host": "chat.example", "origin": "null"}, False),
            ({"origin": ""}, False),
            ({"host": "chat.example", "origin": "http://[::1"}, False),
        ],
    )
    def test_an_origin_is_this_host_or_an_allowed_one(self, headers: dict[str, str], allowed: bool) -> None:
        assert handshake.parse(scope(None, **headers)).is_from(["http://127.0.0.1:*"]) is allowed


class TestAbuseLimits:
    def test_twenty_bad_frames_in_a_row_are_too_many(self) -> None:
        limits = AbuseLimits()
        assert not any(limits.bad_frame() for _ in range(BAD_FRAMES_IN_A_ROW - 1))
        limits.good_frame()
        assert not any(limits.bad_frame() for _ in range(BAD_FRAMES_IN_A_ROW - 1))
        assert limits.bad_frame()

    def test_a_flood_is_refused_and_recovers_with_time(self) -> None:
        limits = AbuseLimits()
        for _ in range(int(FRAME_BURST)):
            limits.require_pace(0.0)
        with pytest.raises(RateLimited):
            limits.require_pace(0.0)
        limits.require_pace(1.0)

    def test_only_a_client_that_keeps_ignoring_refusals_is_closed(self) -> None:
        limits = AbuseLimits()
        assert not any(limits.refusal(number * 0.02) for number in range(3 * MAX_REFUSALS))
        assert any(limits.refusal(100 + number * 0.001) for number in range(MAX_REFUSALS + 1))
