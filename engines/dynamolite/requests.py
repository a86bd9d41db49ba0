"""The types of operations, and the parameters of their requests."""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

from engines.dynamolite.errors import (
    ResourceNotFoundException,
    SerializationException,
    ValidationException,
)
from engines.dynamolite.store import Store, Table

Request: TypeAlias = dict[str, Any]
Response: TypeAlias = dict[str, Any]
# The response and the writes that the caller must execute. The operation itself only reads.
Result: TypeAlias = tuple[Response, Sequence[Callable[[], object]]]
Operation: TypeAlias = Callable[[Request], Result]

# Parameters from before expressions, and those of parallel scans.
UNSUPPORTED_PARAMETERS = (
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


def get_table(store: Store, request: Request) -> Table:
    """Return the table that a request names. Raises `ResourceNotFoundException`."""
    name = request.get("TableName")
    table = store.find(name) if type(name) is str else None
    if table is None:
        require_name(name)
        raise ResourceNotFoundException(f"Requested resource not found: Table: {name} not found")
    return table


def require_name(name: Any) -> str:
    """Return the name of a table or an index. Raises `ValidationException`."""
    if type(name) is not str or not _NAME(name):
        raise ValidationException(
            "Invalid table/index name.  Table/index names must be between 3 and 255 characters long, and may contain "
            "only the characters a-z, A-Z, 0-9, '_', '-', and '.'"
        )
    return name


def reject_unsupported(request: Request) -> None:
    for name in UNSUPPORTED_PARAMETERS:
        if request.get(name) is not None:
            raise ValidationException(f"{name} is not offered here")


def read_bool(request: Request, name: str, *, default: bool = False) -> bool:
    value = request.get(name)
    if value is None:
        return default
    if type(value) is not bool:
        raise SerializationException(f"{name} must be true or false")
    return value


def read_count(request: Request, name: str, *, maximum: int | None = None) -> int | None:
    value = request.get(name)
    if value is None:
        return None
    if type(value) is not int:
        raise SerializationException(f"{name} must be a number")
    if value < 1 or (maximum is not None and value > maximum):
        raise ValidationException(f"{name} must be at least 1" + ("" if maximum is None else f" and at most {maximum}"))
    return value


def read_choice(request: Request, name: str, choices: Collection[str]) -> str | None:
    value = request.get(name)
    if value is not None and value not in choices:
        raise ValidationException(
            f"1 validation error detected: Value '{value}' at '{name}' failed to satisfy constraint: Member must "
            f"satisfy enum value set: [{', '.join(choices)}]"
        )
    return value


def read_list(request: Request, name: str) -> list[Any]:
    """Return a list, which may be missing."""
    value = request.get(name)
    if value is not None and type(value) is not list:
        raise SerializationException(f"{name} must be a list")
    return value or []


def read_map(request: Request, name: str) -> dict[str, Any]:
    """Return a map, which must not be empty."""
    value = request.get(name)
    if value is not None and type(value) is not dict:
        raise SerializationException(f"{name} must be a map")
    if not value:
        raise ValidationException(f"1 validation error detected: Value at '{name}' must have one entry at least")
    return value
