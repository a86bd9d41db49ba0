"""The base of the eight models, and the only module that uses PynamoDB's private parts."""

from collections.abc import Iterable
from functools import cache
from typing import Any, ClassVar

from pynamodb.models import Model

ON_DEMAND = "PAY_PER_REQUEST"
PROVISIONED = "PROVISIONED"

RawItem = dict[str, dict[str, Any]]


class Table(Model):
    """Declares keys, attributes and indexes. Carries no logic: `AsyncDatabase` sends the requests."""

    class Meta:
        table_name = ""
        billing_mode = ON_DEMAND

    point_in_time_recovery: ClassVar[bool] = True


def plain(item: RawItem) -> dict[str, Any]:
    """An item as Python values, whatever attributes it has or lacks. Costs a tenth of a model's `from_raw_data`."""
    return {name: _value(kind, value) for name, typed in item.items() for kind, value in typed.items()}


def _value(kind: str, value: Any) -> Any:
    if kind == "S":
        return value
    if kind == "N":
        return int(value) if value.lstrip("-").isdigit() else float(value)
    if kind == "L":
        return [_value(*dict(each).popitem()) for each in value]
    if kind == "M":
        return plain(value)
    return None if kind == "NULL" else value


@cache
def key_names(model: type[Model]) -> tuple[str, ...]:
    """The names of the hash key and, where there is one, the range key."""
    return tuple(name for name in (model._hash_keyname, model._range_keyname) if name is not None)


def table_description(model: type[Model], name: str) -> dict[str, Any]:
    """A model's keys and indexes in the form of DescribeTable."""
    schema = model._get_schema()
    return {
        "TableName": name,
        "KeySchema": _hash_first(schema["key_schema"]),
        "AttributeDefinitions": schema["attribute_definitions"],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": index["index_name"],
                "KeySchema": _hash_first(index["key_schema"]),
                "Projection": index["projection"],
            }
            for index in schema["global_secondary_indexes"]
        ],
    }


def _hash_first(key_schema: Iterable[Any]) -> list[Any]:
    return sorted(key_schema, key=lambda key: key["KeyType"])


def index_settings(model: type[Model]) -> list[Any]:
    """The `Meta` of each index, in the order of `table_description`."""
    return [index.Meta for index in model._indexes.values()]
