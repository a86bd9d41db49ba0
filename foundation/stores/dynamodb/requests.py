"""Builds DynamoDB requests from models, keys and PynamoDB's expressions. Sends nothing."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action, Update
from pynamodb.indexes import GlobalSecondaryIndex
from pynamodb.models import Model

from foundation.stores.dynamodb.patterns import AccessPattern, M
from foundation.stores.dynamodb.table import RawItem, key_names

Key = tuple[str] | tuple[str, str | int]


def raw_key(model: type[Model], key: Sequence[str | int]) -> RawItem:
    return {name: _raw(value) for name, value in zip(key_names(model), key, strict=True)}


def key_of(model: type[Model], item: RawItem) -> Key:
    """The inverse of `raw_key`, for a whole item."""
    values = [item[name] for name in key_names(model)]
    return cast(Key, tuple([value["S"] if "S" in value else int(value["N"]) for value in values]))


def put(table: str, item: Model, condition: Condition | None) -> dict[str, Any]:
    return {"TableName": table, "Item": item.serialize(), **_expressions(condition=condition)}


def keyed(
    table: str,
    model: type[Model],
    key: Sequence[str | int],
    *,
    actions: Sequence[Action] = (),
    condition: Condition | None = None,
) -> dict[str, Any]:
    """A request about one item: an update with `actions`, a deletion or a condition check without."""
    return {"TableName": table, "Key": raw_key(model, key), **_expressions(actions=actions, condition=condition)}


def query(
    table: str,
    pattern: AccessPattern[Any],
    hash_key: str,
    *,
    where: Condition | None,
    limit: int | None = None,
    forward: bool = True,
    after: Mapping[str, str | int] | None = None,
) -> dict[str, Any]:
    """`where` is a condition on the range key; `after` names the key attributes that the page starts behind."""
    request: dict[str, Any] = {
        "TableName": table,
        "ConsistentRead": pattern.strong,
        "ScanIndexForward": forward,
        "KeyConditionExpression": "#hash = :hash",
        "ExpressionAttributeNames": {"#hash": _hash_name(pattern)},
        "ExpressionAttributeValues": {":hash": _raw(hash_key)},
    }
    if where is not None:
        more = _expressions(condition=where)
        request["KeyConditionExpression"] += f" AND {more['ConditionExpression']}"
        request["ExpressionAttributeNames"] |= more["ExpressionAttributeNames"]
        request["ExpressionAttributeValues"] |= more.get("ExpressionAttributeValues", {})
    if pattern.index_name is not None:
        request["IndexName"] = pattern.index_name
    if limit is not None:
        request["Limit"] = limit
    if after is not None:
        request["ExclusiveStartKey"] = {name: _raw(value) for name, value in after.items()}
    return request


def position_of(pattern: AccessPattern[M], item: M) -> dict[str, str | int]:
    """The key attributes of an item, behind which a query by this pattern continues."""
    names = {*key_names(pattern.model), *_index_keys(pattern.index)}
    return {name: getattr(item, name) for name in sorted(names)}


def _expressions(*, actions: Sequence[Action] = (), condition: Condition | None = None) -> dict[str, Any]:
    names: dict[str, str] = {}
    values: dict[str, Any] = {}
    request: dict[str, Any] = {}
    if condition is not None:
        request["ConditionExpression"] = condition.serialize(names, values)
    if actions:
        request["UpdateExpression"] = Update(*actions).serialize(names, values)
    if names:
        request["ExpressionAttributeNames"] = {placeholder: name for name, placeholder in names.items()}
    if values:
        request["ExpressionAttributeValues"] = values
    return request


def _hash_name(pattern: AccessPattern[Any]) -> str:
    if pattern.index is None:
        return key_names(pattern.model)[0]  # type: ignore[arg-type]
    attributes = pattern.index.Meta.attributes.values()
    return str(next(attribute.attr_name for attribute in attributes if attribute.is_hash_key))


def _index_keys(index: GlobalSecondaryIndex[Any] | None) -> list[str]:
    if index is None:
        return []
    attributes = index.Meta.attributes.values()
    return [attribute.attr_name for attribute in attributes if attribute.is_hash_key or attribute.is_range_key]


def _raw(value: str | int) -> dict[str, str]:
    return {"N": str(value)} if isinstance(value, int) else {"S": value}
