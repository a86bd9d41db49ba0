from datetime import UTC, datetime, timedelta

import pytest

from foundation.kernel.errors import Invalid
from staff.durations import EARLIEST, moment

NOW = datetime(2026, 1, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", NOW - timedelta(seconds=90)),
        ("15m", NOW - timedelta(minutes=15)),
        ("1h", NOW - timedelta(hours=1)),
        ("7d", NOW - timedelta(days=7)),
        ("2026-01-30T10:00:00Z", NOW - timedelta(hours=2)),
        ("0001-01-01T00:00:00Z", EARLIEST),
        ("99999d", EARLIEST),
    ],
)
def test_a_duration_or_a_time_is_a_moment(text: str, expected: datetime) -> None:
    assert moment(text, now=NOW) == expected


@pytest.mark.parametrize(
    "text", ["", "yesterday", "1w", "-1h", "2026-01-30T10:00:00", "9999999h", "999999d", "900000d"]
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Invalid, match=r"1h"):
        moment(text, now=NOW)
