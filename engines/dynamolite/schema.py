"""The schema of a table: its keys, its indexes, and its TTL attribute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engines.dynamolite.errors import ItemValidationError, ValidationException
from engines.dynamolite.values import Item, SortableKey, Value, sortable

MAX_PARTITION_KEY_BYTES = 2048
MAX_SORT_KEY_BYTES = 1024
MAX_CHARACTER_BYTES = 4
MAX_TIMESTAMP = 2**53
# The value of the sort key column in a table or an index without a sort key.
NO_SORT_KEY = ""


@dataclass(frozen=True, slots=True)
class KeySchema:
    """The key attributes and their types."""

    partition: str
    partition_type: str
    sort: str | None
    sort_type: str

    @classmethod
    def parse(cls, key_schema: Sequence[Mapping[str, str]], types: Mapping[str, str]) -> "KeySchema":
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
        """Return the key of an item in an index; None if an attribute is missing, so that the index does not have it.

        An attribute that exists must be valid even if the other one is missing.
        """
        partition = item.get(self.partition)
        partition_key = None if partition is None else self.partition_operand(partition)
        if self.sort is None:
            return None if partition_key is None else (partition_key, NO_SORT_KEY)
        sort = item.get(self.sort)
        sort_key = None if sort is None else self.sort_operand(sort)
        return None if partition_key is None or sort_key is None else (partition_key, sort_key)

    def from_item(self, item: Item) -> tuple[SortableKey, SortableKey]:
        """Return the key of an item in its table. Raises `ValidationException`."""
        key = self.find(item)
        if key is None:
            missing = next(name for name in self.names if name not in item)
            raise ValidationException(
                f"One or more parameter values were invalid: Missing the key {missing} in the item"
            )
        return key

    def from_key(self, key: Item) -> tuple[SortableKey, SortableKey]:
        """Return the key of a request's `Key`, which may have no other attributes."""
        if len(key) != len(self.names):
            raise ValidationException("The provided key element does not match the schema")
        return self.from_item(key)

    def partition_operand(self, value: Value) -> SortableKey:
        return _sortable(value, self.partition, self.partition_type, MAX_PARTITION_KEY_BYTES)

    def sort_operand(self, value: Value) -> SortableKey:
        return _sortable(value, str(self.sort), self.sort_type, MAX_SORT_KEY_BYTES)


def _sortable(value: Value, name: str, kind: str, limit: int) -> SortableKey:
    content = value.get(kind)
    if content is None:
        raise ItemValidationError(
            f"One or more parameter values were invalid: Type mismatch for key {name} expected: {kind} "
            f"actual: {next(iter(value))}"
        )
    if not content:
        raise ValidationException(
            "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an "
            f"empty string value. Key: {name}"
        )
    key = sortable(kind, content)
    if len(key) * MAX_CHARACTER_BYTES > limit and len(key.encode() if isinstance(key, str) else key) > limit:
        raise ItemValidationError(
            f"One or more parameter values were invalid: Size of {name} has exceeded the limit of {limit} bytes"
        )
    return key


@dataclass(frozen=True, slots=True)
class IndexSchema:
    name: str
    keys: KeySchema
    projection: str
    included: frozenset[str]
    is_global: bool

    @classmethod
    def parse(
        cls, description: Mapping[str, Any], types: Mapping[str, str], table: KeySchema, *, is_global: bool
    ) -> "IndexSchema":
        keys = KeySchema.parse(description["KeySchema"], types)
        projection = description.get("Projection", {})
        included = frozenset({*table.names, *keys.names, *projection.get("NonKeyAttributes", ())})
        return cls(description["IndexName"], keys, projection.get("ProjectionType", "ALL"), included, is_global)

    def project(self, item: Item) -> Item:
        """Return the attributes of an item that the index has."""
        return item if self.projection == "ALL" else {k: v for k, v in item.items() if k in self.included}


@dataclass(frozen=True, slots=True)
class TableSchema:
    """`description` is the request that created the table."""

    name: str
    description: dict[str, Any]
    keys: KeySchema
    indexes: Mapping[str, IndexSchema]
    ttl_attribute: str | None

    @classmethod
    def parse(cls, description: dict[str, Any], ttl_attribute: str | None) -> "TableSchema":
        definitions = description.get("AttributeDefinitions") or []
        types = {definition["AttributeName"]: definition["AttributeType"] for definition in definitions}
        keys = KeySchema.parse(description.get("KeySchema") or [], types)
        indexes = [
            IndexSchema.parse(index, types, keys, is_global=kind == "GlobalSecondaryIndexes")
            for kind in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes")
            for index in description.get(kind) or []
        ]
        return cls(description["TableName"], description, keys, {index.name: index for index in indexes}, ttl_attribute)

    def expires_at(self, item: Item) -> int | None:
        """Return the Unix time at which an item expires; None if it does not."""
        if self.ttl_attribute is None:
            return None
        time = float(item.get(self.ttl_attribute, {}).get("N", 0))
        return int(time) if 0 < time < MAX_TIMESTAMP else None

    def describe(self, status: str = "ACTIVE") -> dict[str, Any]:
        """Return the response of DescribeTable."""
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
