"""What a table is: its keys, its indexes, and the attribute by which its items expire."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engines.dynamolite.errors import Misfit, ValidationException
from engines.dynamolite.values import Item, SortableKey, Value, sortable

# In bytes.
PARTITION_KEY = 2048
SORT_KEY = 1024
LONGEST_LETTER = 4
LARGEST_TIME = 2**53
# A table without a sort key keeps this in its place.
NO_SORT_KEY = ""


@dataclass(frozen=True, slots=True)
class Keys:
    """A key schema: the attributes and their types."""

    partition: str
    partition_type: str
    sort: str | None
    sort_type: str

    @classmethod
    def of(cls, key_schema: Sequence[Mapping[str, str]], types: Mapping[str, str]) -> "Keys":
        by_kind = {element["KeyType"]: element["AttributeName"] for element in key_schema}
        partition, sort = by_kind.get("HASH"), by_kind.get("RANGE")
        if partition is None or len(by_kind) != len(key_schema):
            raise ValidationException("Invalid KeySchema: one HASH key and at most one RANGE key")
        for name in filter(None, (partition, sort)):
            if types.get(name) not in {"S", "N", "B"}:
                raise ValidationException(
                    "One or more parameter values were invalid: Some index key attributes are not defined in "
                    f"AttributeDefinitions. Key: {name}"
                )
        return cls(partition, types[partition], sort, types[sort] if sort else "")

    @property
    def names(self) -> tuple[str, ...]:
        return (self.partition,) if self.sort is None else (self.partition, self.sort)

    def find(self, item: Item) -> tuple[SortableKey, SortableKey] | None:
        """An item's place in an index; None where it lacks a key, so that the index does not hold it.

        A key that is there must be one even where the other is not.
        """
        partition = item.get(self.partition)
        place = None if partition is None else _sortable(partition, self.partition, self.partition_type, PARTITION_KEY)
        if self.sort is None:
            return None if place is None else (place, NO_SORT_KEY)
        sort = item.get(self.sort)
        position = None if sort is None else _sortable(sort, self.sort, self.sort_type, SORT_KEY)
        return None if place is None or position is None else (place, position)

    def of_item(self, item: Item) -> tuple[SortableKey, SortableKey]:
        """An item's place in its table."""
        place = self.find(item)
        if place is None:
            missing = next(name for name in self.names if name not in item)
            raise ValidationException(
                f"One or more parameter values were invalid: Missing the key {missing} in the item"
            )
        return place

    def exactly(self, key: Item) -> tuple[SortableKey, SortableKey]:
        """The place that a request's `Key` names; nothing but the key may be in it."""
        if len(key) != len(self.names):
            raise ValidationException("The provided key element does not match the schema")
        return self.of_item(key)

    def partition_operand(self, value: Value) -> SortableKey:
        return _sortable(value, self.partition, self.partition_type, PARTITION_KEY)

    def sort_operand(self, value: Value) -> SortableKey:
        return _sortable(value, str(self.sort), self.sort_type, SORT_KEY)


def _sortable(value: Value, name: str, kind: str, limit: int) -> SortableKey:
    content = value.get(kind)
    if content is None:
        raise Misfit(
            f"One or more parameter values were invalid: Type mismatch for key {name} expected: {kind} "
            f"actual: {next(iter(value))}"
        )
    if not content:
        raise ValidationException(
            "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an "
            f"empty string value. Key: {name}"
        )
    key = sortable(kind, content)
    if len(key) * LONGEST_LETTER > limit and len(key.encode() if isinstance(key, str) else key) > limit:
        raise Misfit(
            f"One or more parameter values were invalid: Size of {name} has exceeded the limit of {limit} bytes"
        )
    return key


@dataclass(frozen=True, slots=True)
class Index:
    name: str
    keys: Keys
    projection: str
    included: frozenset[str]
    is_global: bool

    @classmethod
    def of(cls, description: Mapping[str, Any], types: Mapping[str, str], table: Keys, *, is_global: bool) -> "Index":
        keys = Keys.of(description["KeySchema"], types)
        projection = description.get("Projection", {})
        included = frozenset({*table.names, *keys.names, *projection.get("NonKeyAttributes", ())})
        return cls(description["IndexName"], keys, projection.get("ProjectionType", "ALL"), included, is_global)

    def visible(self, item: Item) -> Item:
        """What the index holds of an item."""
        return item if self.projection == "ALL" else {k: v for k, v in item.items() if k in self.included}


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it was described when it was created, and as the engine uses it."""

    name: str
    description: dict[str, Any]
    keys: Keys
    indexes: Mapping[str, Index]
    expiry: str | None

    @classmethod
    def of(cls, description: dict[str, Any], expiry: str | None) -> "Table":
        definitions = description.get("AttributeDefinitions") or []
        types = {definition["AttributeName"]: definition["AttributeType"] for definition in definitions}
        keys = Keys.of(description.get("KeySchema") or [], types)
        indexes = [
            Index.of(index, types, keys, is_global=kind == "GlobalSecondaryIndexes")
            for kind in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes")
            for index in description.get(kind) or []
        ]
        return cls(description["TableName"], description, keys, {index.name: index for index in indexes}, expiry)

    def expires_at(self, item: Item) -> int | None:
        """The second at which an item may be deleted; None for an item without a time."""
        if self.expiry is None:
            return None
        time = float(item.get(self.expiry, {}).get("N", 0))
        return int(time) if 0 < time < LARGEST_TIME else None

    def answer(self, status: str = "ACTIVE") -> dict[str, Any]:
        """The words of DescribeTable."""
        description = {k: v for k, v in self.description.items() if k not in {"BillingMode", "Tags"}}
        arn = f"arn:aws:dynamodb:local:000000000000:table/{self.name}"
        if self.description.get("BillingMode") == "PAY_PER_REQUEST":
            description["BillingModeSummary"] = {"BillingMode": "PAY_PER_REQUEST"}
        for kind in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes"):
            if kind in description:
                description[kind] = [
                    {**index, "IndexStatus": "ACTIVE", "IndexArn": f"{arn}/index/{index['IndexName']}"}
                    for index in description[kind]
                ]
        return {"TableArn": arn, "TableStatus": status, "ItemCount": 0, "TableSizeBytes": 0, **description}
