"""Who is knocking, and how much of them a socket puts up with."""

from typing import Any

import pytest

from delivery.gateway import handshake
from delivery.gateway.patience import BAD_FRAMES_IN_A_ROW, FRAMES_AT_ONCE, REFUSALS, Patience
from foundation.kernel.errors import RateLimited


def scope(subprotocols: list[str] | None = None, **headers: str) -> dict[str, Any]:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {"headers": pairs, "subprotocols": subprotocols or []}


class TestCredentials:
    def test_the_header(self) -> None:
        assert handshake.read(scope(authorization="Bearer abc")).token == "abc"

    def test_the_subprotocol_for_browsers(self) -> None:
        knock = handshake.read(scope(["parley.v1", "bearer.abc.def"]))
        assert (knock.token, knock.subprotocol) == ("abc.def", "parley.v1")

    @pytest.mark.parametrize("header", ["", "Basic abc", "Bearer", "Bearer "])
    def test_nothing_else_is_a_credential(self, header: str) -> None:
        assert handshake.read(scope(["parley.v1"], authorization=header)).token is None


class TestOrigins:
    @pytest.mark.parametrize(
        ("headers", "welcome"),
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
    def test_browsers_come_from_here_or_from_allowed_places(self, headers: dict[str, str], welcome: bool) -> None:
        assert handshake.read(scope(None, **headers)).comes_from(["http://127.0.0.1:*"]) is welcome


class TestPatience:
    def test_ends_with_twenty_bad_frames_in_a_row(self) -> None:
        patience = Patience()
        assert not any(patience.is_out_with_bad_frame() for _ in range(BAD_FRAMES_IN_A_ROW - 1))
        patience.good_frame()
        assert not any(patience.is_out_with_bad_frame() for _ in range(BAD_FRAMES_IN_A_ROW - 1))
        assert patience.is_out_with_bad_frame()

    def test_a_flood_is_refused_and_recovers_with_time(self) -> None:
        patience = Patience()
        for _ in range(int(FRAMES_AT_ONCE)):
            patience.require_pace(0.0)
        with pytest.raises(RateLimited):
            patience.require_pace(0.0)
        patience.require_pace(1.0)

    def test_only_who_keeps_ignoring_refusals_is_closed(self) -> None:
        patience = Patience()
        assert not any(patience.is_out_with_flood(number * 0.02) for number in range(3 * REFUSALS))
        assert any(patience.is_out_with_flood(100 + number * 0.001) for number in range(REFUSALS + 1))
