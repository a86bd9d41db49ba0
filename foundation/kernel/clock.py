"""Time, passed in: nothing in Parley reads the wall clock by itself."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """Tells the present moment in UTC."""

    def now(self) -> datetime: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


@lru_cache(maxsize=64)  # one moment is written many times: in every item and event of a batch
def to_iso(moment: datetime) -> str:
    """The contract's form: UTC with milliseconds, `2026-01-30T14:30:00.000Z`. Sorts as text like it sorts as time."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def from_iso(text: str) -> datetime:
    """Inverse of `to_iso`; accepts any ISO 8601 time with an offset. Raises ValueError otherwise."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no UTC offset")
    return moment.astimezone(UTC)
