"""Validation of names, times and ids, and that the documented patterns agree with it."""

import re
from typing import Any

import pytest

from chats.api.serializers import IDEMPOTENCY_KEY_PATTERN, NAME_PATTERN, USER_ID_PATTERN, MuteBody, RenameChatBody
from foundation.kernel.clock import SystemClock, to_iso
from foundation.kernel.ids import IdFactory


def accepted(serializer: type[Any], data: object) -> bool:
    return bool(serializer(data=data).is_valid())


GOOD_NAMES = ["a", " a ", "Familie Müller", "👩‍👩‍👧", "مجموعة", "x" * 100, "a b\u00a0c"]
BAD_NAMES = [
    "",
    "   ",
    "\u00a0",
    "a\nb",
    "a\tb",
    "\x7f",
    "\x85",
    "a\u2028",
    "a\u2029",
    "x" * 101,
    "\u202eadmin",
    "a\u2066b",
]
INVISIBLE_NAMES = ["\u200b", "\u200d\ufeff"]


class TestNames:
    @pytest.mark.parametrize("name", GOOD_NAMES)
    def test_valid_names_are_accepted(self, name: str) -> None:
        assert accepted(RenameChatBody, {"name": name})
        assert re.fullmatch(NAME_PATTERN, name)

    @pytest.mark.parametrize("name", BAD_NAMES)
    def test_invalid_names_are_refused_and_do_not_match_the_documented_pattern(self, name: str) -> None:
        assert not accepted(RenameChatBody, {"name": name})
        assert len(name) > 100 or not re.fullmatch(NAME_PATTERN, name)

    @pytest.mark.parametrize("name", INVISIBLE_NAMES)
    def test_names_without_anything_to_see_are_refused(self, name: str) -> None:
        assert not accepted(RenameChatBody, {"name": name})

    @pytest.mark.parametrize("name", [1, True, None, ["a"], {"a": "b"}])
    def test_other_types_are_refused(self, name: object) -> None:
        assert not accepted(RenameChatBody, {"name": name})


class TestTimes:
    @pytest.mark.parametrize(
        ("text", "stored"),
        [
            ("2026-02-01T10:00:00+02:00", "2026-02-01T08:00:00.000Z"),
            ("2026-02-01T10:00:00.123456Z", "2026-02-01T10:00:00.123Z"),
        ],
    )
    def test_any_offset_is_converted_to_utc(self, text: str, stored: str) -> None:
        body = MuteBody(data={"muted_until": text})
        assert body.is_valid()
        assert to_iso(body.validated_data["muted_until"]) == stored

    @pytest.mark.parametrize("text", ["2026-02-01T10:00:00", "2026-02-30T10:00:00Z", "now", "", 12, False])
    def test_invalid_times_are_refused(self, text: object) -> None:
        assert not accepted(MuteBody, {"muted_until": text})


def test_ids_and_keys_match_their_documented_patterns() -> None:
    user_id = IdFactory(SystemClock()).user()
    assert re.fullmatch(USER_ID_PATTERN, user_id)
    assert re.fullmatch(IDEMPOTENCY_KEY_PATTERN, "2f1c-~!")
    assert not re.fullmatch(IDEMPOTENCY_KEY_PATTERN, "a b")
