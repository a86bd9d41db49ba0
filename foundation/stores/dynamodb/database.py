"""Runs declared access patterns, and nothing else.

Keeps DynamoDB's limits (100 keys a read, 25 a batch write, 100 items a transaction), fetches what the engine left
unprocessed, and retries what is worth retrying: bounded, with jitter.
"""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, cast

from pynamodb.connection.base import MetaTable
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action
from pynamodb.models import Model

from foundation.kernel.retry import RetryPolicy
from foundation.stores.dynamodb.connection import DynamoDBOptions, ParleyConnection
from foundation.stores.dynamodb.patterns import AccessPattern, M, Operation
from foundation.stores.errors import Throttled, TransactionCancelled, TransactionConflict
from foundation.stores.metrics import DYNAMODB_ITEMS

BATCH_GET_KEYS = 100
BATCH_WRITE_ITEMS = 25
TRANSACTION_ITEMS = 100

# Finding a metric by its labels takes longer than counting.
_items = cache(DYNAMODB_ITEMS.labels)

Key = tuple[str] | tuple[str, str | int]
RawItem = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Page(Generic[M]):
    """Part of a query's answer; `more` says that the query was cut by its limit or by DynamoDB's page size."""

    items: list[M]
    more: bool


@dataclass(frozen=True, slots=True)
class RawPage:
    """A page whose items are as DynamoDB sent them."""

    items: list[RawItem]
    more: bool


@dataclass(frozen=True, slots=True)
class Write:
    """One item's part of a transaction, made by the `Database` methods named after it."""

    pattern: AccessPattern[Any]
    request: dict[str, Any]


class BatchResult:
    """What a batch read found, by pattern and key. Items become models only when asked for as such."""

    def __init__(self, found: Mapping[AccessPattern[Any], dict[Key, RawItem]]) -> None:
        self._found = found

    def of(self, pattern: AccessPattern[M]) -> dict[Key, M]:
        return {key: pattern.model.from_raw_data(raw) for key, raw in self.raw(pattern).items()}

    def raw(self, pattern: AccessPattern[Any]) -> dict[Key, RawItem]:
        """The items as DynamoDB sent them, for hot paths."""
        return self._found.get(pattern, {})


class Database:
    """A process's view of the eight tables. Thread-safe."""

    def __init__(
        self,
        options: DynamoDBOptions,
        *,
        read_only: bool = False,
        retry: RetryPolicy | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.connection = ParleyConnection(options, read_only=read_only)
        self._prefix = options.table_prefix
        self._retry = retry or RetryPolicy()
        self._sleep = sleep

    def table_name(self, model: type[Model]) -> str:
        """The deployed name of a model's table; the first use tells the connection its keys."""
        name = self._prefix + model.Meta.table_name
        if name not in self.connection._tables:
            self.connection._tables[name] = MetaTable(table_description(model, name))
        return name

    # Reads

    def get(self, pattern: AccessPattern[M], *key: str | int) -> M | None:
        _require(pattern, Operation.GET)
        hash_key, range_key = _serialized(pattern, key)
        data = self.connection.get_item(
            self.table_name(pattern.model), hash_key, range_key, consistent_read=pattern.strong
        )
        _count(pattern, 1)
        return pattern.model.from_raw_data(data["Item"]) if data.get("Item") else None

    def query(
        self,
        pattern: AccessPattern[M],
        hash_key: str,
        *,
        where: Condition | None = None,
        limit: int | None = None,
        forward: bool = True,
        after: Mapping[str, str | int] | None = None,
    ) -> Page[M]:
        """One request: up to `limit` items, going on behind the key attributes `after`."""
        page = self.query_raw(pattern, hash_key, where=where, limit=limit, forward=forward, after=after)
        return Page(items=[pattern.model.from_raw_data(raw) for raw in page.items], more=page.more)

    def query_raw(
        self,
        pattern: AccessPattern[Any],
        hash_key: str,
        *,
        where: Condition | None = None,
        limit: int | None = None,
        forward: bool = True,
        after: Mapping[str, str | int] | None = None,
    ) -> RawPage:
        """The same, items as DynamoDB sent them, for hot paths."""
        _require(pattern, Operation.QUERY)
        data = self.connection.query(
            self.table_name(pattern.model),
            hash_key,
            range_key_condition=where,
            consistent_read=pattern.strong,
            exclusive_start_key=None if after is None else {name: _raw_key(value) for name, value in after.items()},
            index_name=pattern.index_name,
            limit=limit,
            scan_index_forward=forward,
        )
        _count(pattern, len(data["Items"]))
        return RawPage(items=data["Items"], more="LastEvaluatedKey" in data)

    def query_all(self, pattern: AccessPattern[M], hash_key: str) -> list[M]:
        """Every item of a collection that is bounded by design, page after page."""
        items: list[M] = []
        page = self.query(pattern, hash_key)
        items += page.items
        while page.more:
            page = self.query(pattern, hash_key, after=position_of(pattern, items[-1]))
            items += page.items
        return items

    def count(self, pattern: AccessPattern[M], hash_key: str) -> int:
        """How many items a collection holds; only the number travels."""
        _require(pattern, Operation.QUERY)
        table, total, after = self.table_name(pattern.model), 0, None
        while True:
            data = self.connection.query(
                table,
                hash_key,
                consistent_read=pattern.strong,
                exclusive_start_key=after,
                index_name=pattern.index_name,
                select="COUNT",
            )
            total += int(data["Count"])
            after = data.get("LastEvaluatedKey")
            if after is None:
                _count(pattern, total)
                return total

    def batch_get(self, wanted: Mapping[AccessPattern[Any], Iterable[Key]]) -> BatchResult:
        """Read keys of one or several tables, 100 a request. Keys not found are absent from the result."""
        pairs = _pairs(wanted)
        found: list[tuple[str, RawItem]] = []
        for chunk in _chunks(pairs, BATCH_GET_KEYS):
            found += self._batch_get_chunk(chunk)
        return self._found(wanted, pairs, found)

    async def batch_get_soon(self, wanted: Mapping[AccessPattern[Any], Iterable[Key]]) -> BatchResult:
        """The same from an event loop: one request where that suffices, else as `batch_get` does it, in a thread."""
        pairs = _pairs(wanted)
        if len(pairs) <= BATCH_GET_KEYS:
            data = await self.connection.dispatch_soon("BatchGetItem", {"RequestItems": self._keys_request(pairs)})
            if not data.get("UnprocessedKeys"):
                return self._found(wanted, pairs, _answered(data))
        return await asyncio.to_thread(self.batch_get, wanted)

    def _found(
        self,
        wanted: Iterable[AccessPattern[Any]],
        pairs: Iterable[tuple[AccessPattern[Any], Key]],
        raw_items: Iterable[tuple[str, RawItem]],
    ) -> BatchResult:
        found: dict[AccessPattern[Any], dict[Key, RawItem]] = {pattern: {} for pattern in wanted}
        by_table = {self.table_name(pattern.model): pattern for pattern in wanted}
        for table, raw in raw_items:
            pattern = by_table[table]
            found[pattern][_key_of(pattern.model, raw)] = raw
        for pattern, count in Counter(pattern for pattern, _ in pairs).items():
            _count(pattern, count)
        return BatchResult(found)

    def _keys_request(self, pairs: Sequence[tuple[AccessPattern[Any], Key]]) -> dict[str, Any]:
        request: dict[str, Any] = {}
        for pattern, group in itertools.groupby(pairs, key=lambda pair: pair[0]):
            _require(pattern, Operation.BATCH_GET)
            names = _key_names(pattern.model)
            request[self.table_name(pattern.model)] = {
                "Keys": [{name: _raw_key(value) for name, value in zip(names, key, strict=True)} for _, key in group],
                "ConsistentRead": pattern.strong,
            }
        return request

    def _batch_get_chunk(self, pairs: Sequence[tuple[AccessPattern[Any], Key]]) -> list[tuple[str, RawItem]]:
        pending = self._keys_request(pairs)
        found: list[tuple[str, RawItem]] = []
        for _ in self._retry.tries(self._sleep):
            data = self.connection.dispatch("BatchGetItem", {"RequestItems": pending})
            found += _answered(data)
            pending = data.get("UnprocessedKeys") or {}
            if not pending:
                return found
        raise Throttled("DynamoDB left keys unread through every retry")

    # Writes

    def put(self, pattern: AccessPattern[M], item: M, condition: Condition | None = None) -> None:
        """Raises `ConditionFailed`."""
        _require(pattern, Operation.PUT)
        self._write("PutItem", self._put_request(pattern, item, condition))
        _count(pattern, 1)

    def update(
        self, pattern: AccessPattern[M], key: Key, actions: Sequence[Action], condition: Condition | None = None
    ) -> M:
        """Return the item as it now is. Raises `ConditionFailed`."""
        _require(pattern, Operation.UPDATE)
        request = self._keyed_request(pattern, key, actions=actions, condition=condition)
        data = self._write("UpdateItem", {**request, "ReturnValues": "ALL_NEW"})
        _count(pattern, 1)
        return pattern.model.from_raw_data(data["Attributes"])

    def delete(self, pattern: AccessPattern[M], key: Key, condition: Condition | None = None) -> None:
        """Raises `ConditionFailed`; without a condition, deleting what is not there succeeds."""
        _require(pattern, Operation.DELETE)
        self._write("DeleteItem", self._keyed_request(pattern, key, condition=condition))
        _count(pattern, 1)

    def _write(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """One item's write, tried again when a transaction holds the item. Raises `TransactionConflict`."""
        for attempt in self._retry.tries(self._sleep):
            try:
                return self.connection.dispatch(operation, request)
            except TransactionConflict:
                if attempt == self._retry.attempts - 1:
                    raise
        raise AssertionError("a policy has one attempt at least")

    def batch_put(self, pattern: AccessPattern[M], items: Sequence[M]) -> None:
        """Write many items, 25 a request, not atomically. Raises `Throttled` when some could not be written."""
        _require(pattern, Operation.BATCH_PUT)
        self._batch_write(pattern, [{"PutRequest": {"Item": item.serialize()}} for item in items])

    def batch_delete(self, pattern: AccessPattern[M], keys: Sequence[Key]) -> None:
        """Delete many items, 25 a request, not atomically. Raises `Throttled` when some could not be deleted."""
        _require(pattern, Operation.BATCH_DELETE)
        table = self.table_name(pattern.model)
        keys_raw = [self.connection.get_identifier_map(table, *_serialized(pattern, key))["Key"] for key in keys]
        self._batch_write(pattern, [{"DeleteRequest": {"Key": raw}} for raw in keys_raw])

    def _batch_write(self, pattern: AccessPattern[Any], requests: Sequence[dict[str, Any]]) -> None:
        table = self.table_name(pattern.model)
        for chunk in _chunks(requests, BATCH_WRITE_ITEMS):
            pending: dict[str, Any] = {table: chunk}
            for _ in self._retry.tries(self._sleep):
                pending = self.connection.dispatch("BatchWriteItem", {"RequestItems": pending}).get(
                    "UnprocessedItems", {}
                )
                if not pending:
                    break
            else:
                raise Throttled("DynamoDB left items unwritten through every retry")
            _count(pattern, len(chunk))

    # Transactions

    def putting(self, pattern: AccessPattern[M], item: M, condition: Condition | None = None) -> Write:
        _require(pattern, Operation.TRANSACT_PUT)
        return Write(pattern, {"Put": self._put_request(pattern, item, condition)})

    def updating(
        self, pattern: AccessPattern[M], key: Key, actions: Sequence[Action], condition: Condition | None = None
    ) -> Write:
        _require(pattern, Operation.TRANSACT_UPDATE)
        return Write(pattern, {"Update": self._keyed_request(pattern, key, actions=actions, condition=condition)})

    def deleting(self, pattern: AccessPattern[M], key: Key, condition: Condition | None = None) -> Write:
        _require(pattern, Operation.TRANSACT_DELETE)
        return Write(pattern, {"Delete": self._keyed_request(pattern, key, condition=condition)})

    def checking(self, pattern: AccessPattern[M], key: Key, condition: Condition) -> Write:
        _require(pattern, Operation.TRANSACT_CHECK)
        return Write(pattern, {"ConditionCheck": self._keyed_request(pattern, key, condition=condition)})

    def transact(self, writes: Sequence[Write], *, retry: RetryPolicy | None = None) -> None:
        """All or nothing. Raises `TransactionCancelled` when a condition failed.

        A cancellation for conflicts or throttling alone is tried again; `retry` of one attempt leaves that to the
        caller, who then sees every cancellation with its reasons.
        """
        policy = retry or self._retry
        for attempt in policy.tries(self._sleep):
            try:
                self.connection.dispatch("TransactWriteItems", _transaction(writes))
            except (TransactionCancelled, TransactionConflict) as error:
                transient = isinstance(error, TransactionConflict) or error.is_transient
                if not transient or policy.attempts == 1:
                    raise
                if attempt == policy.attempts - 1:
                    raise TransactionConflict("Another write kept holding an item") from error
            else:
                break
        _count_all(writes)

    async def transact_soon(self, writes: Sequence[Write]) -> None:
        """All or nothing, from an event loop, and once: the caller sees every cancellation with its reasons."""
        await self.connection.dispatch_soon("TransactWriteItems", _transaction(writes))
        _count_all(writes)

    def _put_request(self, pattern: AccessPattern[Any], item: Model, condition: Condition | None) -> dict[str, Any]:
        request: dict[str, Any] = {"TableName": self.table_name(pattern.model), "Item": item.serialize()}
        if condition is not None:
            names: dict[str, str] = {}
            values: dict[str, Any] = {}
            request["ConditionExpression"] = condition.serialize(names, values)
            request["ExpressionAttributeNames"] = {placeholder: name for name, placeholder in names.items()}
            if values:
                request["ExpressionAttributeValues"] = values
        return request

    def _keyed_request(
        self,
        pattern: AccessPattern[Any],
        key: Key,
        *,
        actions: Sequence[Action] | None = None,
        condition: Condition | None = None,
    ) -> dict[str, Any]:
        hash_key, range_key = _serialized(pattern, key)
        return self.connection.get_operation_kwargs(
            self.table_name(pattern.model), hash_key, range_key, actions=actions, condition=condition
        )


def table_description(model: type[Model], name: str) -> dict[str, Any]:
    """A model's keys and indexes in the words of DescribeTable."""
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


def position_of(pattern: AccessPattern[M], item: M) -> dict[str, str | int]:
    """The key attributes behind which a query by this pattern goes on."""
    names = {item._hash_keyname, item._range_keyname}
    if pattern.index is not None:
        names |= {attribute.attr_name for attribute in pattern.index.Meta.attributes.values() if _is_key(attribute)}
    return {name: getattr(item, name) for name in sorted(filter(None, names))}


def _is_key(attribute: Any) -> bool:
    return bool(attribute.is_hash_key or attribute.is_range_key)


def _key_names(model: type[Model]) -> tuple[str, ...]:
    return tuple(name for name in (model._hash_keyname, model._range_keyname) if name is not None)


def _key_of(model: type[Model], raw: RawItem) -> Key:
    values = [raw[name] for name in _key_names(model)]
    return cast(Key, tuple(value["S"] if "S" in value else int(value["N"]) for value in values))


def _serialized(pattern: AccessPattern[Any], key: Sequence[str | int]) -> tuple[Any, Any]:
    hash_key, range_key = pattern.model._serialize_keys(*key)
    return hash_key, range_key


def _raw_key(value: str | int) -> dict[str, str]:
    return {"N": str(value)} if isinstance(value, int) else {"S": value}


def _require(pattern: AccessPattern[Any], operation: Operation) -> None:
    if pattern.operation is not operation:
        raise ValueError(f"{pattern.name!r} is declared as {pattern.operation}, not {operation}")


def _count(pattern: AccessPattern[Any], items: int) -> None:
    _items(pattern.table, pattern.name).inc(items)


def _count_all(writes: Sequence[Write]) -> None:
    for pattern, count in Counter(write.pattern for write in writes).items():
        _count(pattern, count)


def _transaction(writes: Sequence[Write]) -> dict[str, Any]:
    return {"TransactItems": [write.request for write in writes]}


def _pairs(wanted: Mapping[AccessPattern[Any], Iterable[Key]]) -> list[tuple[AccessPattern[Any], Key]]:
    return [(pattern, key) for pattern, keys in wanted.items() for key in dict.fromkeys(keys)]


def _answered(data: Mapping[str, Any]) -> list[tuple[str, RawItem]]:
    return [(table, raw) for table, items in data["Responses"].items() for raw in items]


def _chunks(items: Sequence[Any], size: int) -> Iterable[list[Any]]:
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk
