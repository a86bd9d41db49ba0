"""The clock, which is passed in: no other code reads the wall clock."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol, TypeGuard


class Clock(Protocol):
    """Gives the current time in UTC."""

    def now(self) -> datetime: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


@lru_cache(maxsize=64)  # the same time is written in every item and event of a batch
def to_iso(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds, `2026-01-30T14:30:00.000Z`. The texts sort like the times."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def from_iso(text: str) -> datetime:
    """Inverse of `to_iso`; accepts any ISO 8601 time with an offset. Raises ValueError otherwise.

    Raises OverflowError for a time that the offset moves beyond the range of `datetime`.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no UTC offset")
    return moment.astimezone(UTC)


def is_iso(value: object) -> TypeGuard[str]:
    """Whether it is a text that `from_iso` reads."""
    try:
        from_iso(value)  # type: ignore[arg-type]
    except (ValueError, OverflowError, TypeError):
        return False
    return True
