"""Access patterns as data.

A pattern states once which table or index it touches, by which operation, key and consistency. `Database` takes a
pattern with every call and obeys it, so the matrix that `manage.py access_patterns` prints cannot drift from the code.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Generic, TypeVar

from pynamodb.indexes import GlobalSecondaryIndex
from pynamodb.models import Model

M = TypeVar("M", bound=Model)


class Operation(StrEnum):
    GET = "GetItem"
    QUERY = "Query"
    PUT = "PutItem"
    UPDATE = "UpdateItem"
    DELETE = "DeleteItem"
    BATCH_GET = "BatchGetItem"
    BATCH_PUT = "BatchWriteItem (Put)"
    BATCH_DELETE = "BatchWriteItem (Delete)"
    TRANSACT_PUT = "TransactWriteItems (Put)"
    TRANSACT_UPDATE = "TransactWriteItems (Update)"
    TRANSACT_DELETE = "TransactWriteItems (Delete)"
    OFFLINE_SCAN = "Scan (offline)"
    """Of an operator's tool that says so, never of a running service."""


class Consistency(StrEnum):
    STRONG = "Strong"
    EVENTUAL = "Eventual"
    WRITE = "N/A"


_READS = {Operation.GET, Operation.QUERY, Operation.BATCH_GET, Operation.OFFLINE_SCAN}
_declared: dict[str, "AccessPattern[Any]"] = {}


@dataclass(frozen=True, eq=False)
class AccessPattern(Generic[M]):
    """One way in which Parley touches one table. Declaring it enters it in the matrix."""

    name: str
    model: type[M]
    operation: Operation
    key: str
    consistency: Consistency = Consistency.WRITE
    index: GlobalSecondaryIndex[Any] | None = None
    condition: str = ""

    def __post_init__(self) -> None:
        if (self.operation in _READS) == (self.consistency is Consistency.WRITE):
            raise ValueError(f"{self.name}: a read states its consistency, a write has none")
        if self.index is not None and self.consistency is Consistency.STRONG:
            raise ValueError(f"{self.name}: an index cannot be read strongly")
        if self.name in _declared:
            raise ValueError(f"{self.name} is declared twice")
        _declared[self.name] = self

    @cached_property
    def table(self) -> str:
        """The table's name in the documents, without the deployment's prefix."""
        return self.model.Meta.table_name

    @cached_property
    def index_name(self) -> str | None:
        return None if self.index is None else self.index.Meta.index_name

    @cached_property
    def strong(self) -> bool:
        return self.consistency is Consistency.STRONG


def declared() -> Iterator[AccessPattern[Any]]:
    """Every pattern declared by the modules imported so far, by table and in order of declaration."""
    return iter(sorted(_declared.values(), key=lambda pattern: pattern.table))
