"""Requests that show whether DynamoDB allows an access pattern, and change nothing.

They are for a key that no item has: reads find nothing, writes have a condition that never holds. `BatchWriteItem`
knows no condition, so it deletes what is not there.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from foundation.stores.dynamodb import AccessPattern, Database, Operation, requests
from foundation.stores.dynamodb.table import RawItem, key_names

PROBE = "check_deploy#probe"
NUMBERS = {"sequence"}
"""The keys that are no text."""

Request = Mapping[str, Any]
ITEM_OF_A_TRANSACTION = {
    Operation.TRANSACT_PUT: Operation.PUT,
    Operation.TRANSACT_UPDATE: Operation.UPDATE,
    Operation.TRANSACT_DELETE: Operation.DELETE,
}
"""AWS checks the actions of a transaction's items."""


def attempts(database: Database, patterns: Iterable[AccessPattern[Any]]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """For each operation on each table or index: its place, its name, a request."""
    seen = set[tuple[str, str | None, str]]()
    for pattern in patterns:
        operation = ITEM_OF_A_TRANSACTION.get(pattern.operation, pattern.operation)
        name = operation.value.partition(" ")[0]
        table = database.table_name(pattern.model)
        if (table, pattern.index_name, name) not in seen:
            seen.add((table, pattern.index_name, name))
            place = table if pattern.index_name is None else f"{table}'s {pattern.index_name}"
            yield place, name, _request(operation, table, pattern)


def deletion(database: Database, model: Any) -> dict[str, Any]:
    """A `DeleteItem` that deletes nothing."""
    return {"TableName": database.table_name(model), "Key": _key(model), **_never(model)}


def _request(operation: Operation, table: str, pattern: AccessPattern[Any]) -> dict[str, Any]:
    model, key = pattern.model, _key(pattern.model)
    match operation:
        case Operation.GET:
            return {"TableName": table, "Key": key}
        case Operation.QUERY:
            return requests.query(table, pattern, PROBE, where=None, limit=1)
        case Operation.BATCH_GET:
            return {"RequestItems": {table: {"Keys": [key]}}}
        case Operation.PUT:
            return {"TableName": table, "Item": key, **_never(model)}
        case Operation.UPDATE | Operation.DELETE:
            return {"TableName": table, "Key": key, **_never(model)}
        case Operation.BATCH_PUT | Operation.BATCH_DELETE:
            return {"RequestItems": {table: [{"DeleteRequest": {"Key": key}}]}}
        case Operation.OFFLINE_SCAN:
            return {"TableName": table, "Limit": 1}
    raise ValueError(f"{pattern.name!r} has no request that changes nothing: {operation}")


def _key(model: Any) -> RawItem:
    return requests.raw_key(model, [0 if name in NUMBERS else PROBE for name in key_names(model)])


def _never(model: Any) -> dict[str, str]:
    return {"ConditionExpression": f"attribute_exists({key_names(model)[0]})"}
