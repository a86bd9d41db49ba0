"""Times as operators write them: `90s`, `15m`, `1h`, `7d`, or an ISO 8601 time."""

import re
from datetime import UTC, datetime, timedelta

from foundation.kernel.clock import from_iso
from foundation.kernel.errors import Invalid

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
"""Nothing is older, and Kafka knows no earlier time."""
_DURATION = re.compile(r"(\d{1,6})([smhd])")


def moment(text: str, *, now: datetime) -> datetime:
    """The time that lies a duration back, or the time itself, in 1970 at the earliest. Raises `Invalid`."""
    try:
        found = _DURATION.fullmatch(text)
        then = now - timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else from_iso(text)
        return max(then, EARLIEST)
    except (ValueError, OverflowError) as error:
        raise Invalid(f"{text!r} is neither a duration such as 1h nor a time such as 2026-01-30T14:30:00Z") from error
