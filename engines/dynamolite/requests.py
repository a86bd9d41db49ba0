"""What operations read from their requests, and what they give back."""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

from engines.dynamolite.errors import (
    ResourceNotFoundException,
    SerializationException,
    ValidationException,
)
from engines.dynamolite.rows import Shelf, Store

Request: TypeAlias = dict[str, Any]
Answer: TypeAlias = dict[str, Any]
# What a request is answered, and the writes that make it true. An operation only looks: who calls it writes.
Decision: TypeAlias = tuple[Answer, Sequence[Callable[[], object]]]
Operation: TypeAlias = Callable[[Request], Decision]

# From before expressions, or for what is not offered here: refused, rather than ignored.
LEGACY = (
    "AttributesToGet",
    "AttributeUpdates",
    "ConditionalOperator",
    "Expected",
    "KeyConditions",
    "QueryFilter",
    "ScanFilter",
    "Segment",
    "TotalSegments",
)

_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}").fullmatch


def find_shelf(store: Store, request: Request) -> Shelf:
    """The table that a request names. Raises where there is none."""
    name = request.get("TableName")
    shelf = store.find(name) if type(name) is str else None
    if shelf is None:
        require_name(name)
        raise ResourceNotFoundException(f"Requested resource not found: Table: {name} not found")
    return shelf


def require_name(name: Any) -> str:
    """The name of a table or an index."""
    if type(name) is not str or not _NAME(name):
        raise ValidationException(
            "Invalid table/index name.  Table/index names must be between 3 and 255 characters long, and may contain "
            "only the characters a-z, A-Z, 0-9, '_', '-', and '.'"
        )
    return name


def refuse_legacy(request: Request) -> None:
    for name in LEGACY:
        if request.get(name) is not None:
            raise ValidationException(f"{name} is not offered here")


def is_set(request: Request, name: str, *, otherwise: bool = False) -> bool:
    value = request.get(name)
    if value is None:
        return otherwise
    if type(value) is not bool:
        raise SerializationException(f"{name} must be true or false")
    return value


def count_of(request: Request, name: str, *, most: int | None = None) -> int | None:
    value = request.get(name)
    if value is None:
        return None
    if type(value) is not int:
        raise SerializationException(f"{name} must be a number")
    if value < 1 or (most is not None and value > most):
        raise ValidationException(f"{name} must be at least 1" + ("" if most is None else f" and at most {most}"))
    return value


def choice_of(request: Request, name: str, choices: Collection[str]) -> str | None:
    value = request.get(name)
    if value is not None and value not in choices:
        raise ValidationException(
            f"1 validation error detected: Value '{value}' at '{name}' failed to satisfy constraint: Member must "
            f"satisfy enum value set: [{', '.join(choices)}]"
        )
    return value


def list_of(request: Request, name: str) -> list[Any]:
    """A list that may be missing."""
    value = request.get(name)
    if value is not None and type(value) is not list:
        raise SerializationException(f"{name} must be a list")
    return value or []


def map_of(request: Request, name: str) -> dict[str, Any]:
    """A map that must have something in it."""
    value = request.get(name)
    if value is not None and type(value) is not dict:
        raise SerializationException(f"{name} must be a map")
    if not value:
        raise ValidationException(f"1 validation error detected: Value at '{name}' must have one entry at least")
    return value
