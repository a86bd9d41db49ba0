"""Runs declared access patterns on an event loop.

Keeps DynamoDB's limits (100 keys a read, 25 items a batch write, 100 items a transaction), reads again what the engine
left unprocessed, and retries conflicts and throttling with jitter, a bounded number of times.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic

from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action
from pynamodb.models import Model

from foundation.kernel.retry import RetryPolicy
from foundation.stores.dynamodb import requests
from foundation.stores.dynamodb.patterns import AccessPattern, M, Operation
from foundation.stores.dynamodb.requests import Key
from foundation.stores.dynamodb.table import RawItem
from foundation.stores.dynamodb.wire import DynamoDBOptions, Wire
from foundation.stores.errors import Throttled, TransactionCancelled, TransactionConflict
from foundation.stores.metrics import DYNAMODB_ITEMS

BATCH_GET_KEYS = 100
BATCH_WRITE_ITEMS = 25
TRANSACTION_ITEMS = 100

# Looking a metric up by its labels costs more than counting.
_items = cache(DYNAMODB_ITEMS.labels)


@dataclass(frozen=True, slots=True)
class Page(Generic[M]):
    """Part of a query's answer; `more` says that the query was cut by its limit or by DynamoDB's page size."""

    items: list[M]
    more: bool


@dataclass(frozen=True, slots=True)
class RawPage:
    """A page of items in DynamoDB's own form."""

    items: list[RawItem]
    more: bool


@dataclass(frozen=True, slots=True)
class ScanPage:
    """A page of a whole table. `next_key` is where the next page begins; None at the end."""

    items: list[RawItem]
    next_key: RawItem | None


@dataclass(frozen=True, slots=True)
class Write:
    """One item's part of a transaction, made by the methods of `Tables`."""

    pattern: AccessPattern[Any]
    request: dict[str, Any]


class BatchResult:
    """The items that a batch read found, by pattern and key."""

    def __init__(self, found: Mapping[AccessPattern[Any], dict[Key, RawItem]]) -> None:
        self._found = found

    def of(self, pattern: AccessPattern[M]) -> dict[Key, M]:
        return {key: pattern.model.from_raw_data(raw) for key, raw in self.raw(pattern).items()}

    def raw(self, pattern: AccessPattern[Any]) -> dict[Key, RawItem]:
        """The items in DynamoDB's own form, for hot paths."""
        return self._found.get(pattern, {})


class Tables:
    """Table names of a deployment, and the parts of transactions. Sends nothing."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def table_name(self, model: type[Model]) -> str:
        """The deployed name of a model's table."""
        return f"{self._prefix}{model.Meta.table_name}"

    def putting(self, pattern: AccessPattern[M], item: M, condition: Condition | None = None) -> Write:
        _require(pattern, Operation.TRANSACT_PUT)
        return Write(pattern, {"Put": requests.put(self.table_name(pattern.model), item, condition)})

    def updating(
        self, pattern: AccessPattern[M], key: Key, actions: Sequence[Action], condition: Condition | None = None
    ) -> Write:
        _require(pattern, Operation.TRANSACT_UPDATE)
        return Write(pattern, {"Update": self._keyed(pattern, key, actions=actions, condition=condition)})

    def deleting(self, pattern: AccessPattern[M], key: Key, condition: Condition | None = None) -> Write:
        _require(pattern, Operation.TRANSACT_DELETE)
        return Write(pattern, {"Delete": self._keyed(pattern, key, condition=condition)})

    def _keyed(self, pattern: AccessPattern[Any], key: Key, **expressions: Any) -> dict[str, Any]:
        return requests.keyed(self.table_name(pattern.model), pattern.model, key, **expressions)


class AsyncDatabase(Tables):
    """A process's view of the eight tables, for one event loop."""

    def __init__(
        self,
        options: DynamoDBOptions,
        *,
        read_only: bool = False,
        retry: RetryPolicy | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        super().__init__(options.table_prefix)
        self.wire = Wire(options, read_only=read_only, sleep=sleep)
        self._retry = retry or RetryPolicy()
        self._sleep = sleep

    async def call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """An operation that is no access pattern: about tables, not items."""
        return await self.wire.call(operation, request)

    # Reads

    async def get(self, pattern: AccessPattern[M], *key: str | int) -> M | None:
        _require(pattern, Operation.GET)
        request = {
            "TableName": self.table_name(pattern.model),
            "Key": requests.raw_key(pattern.model, key),
            "ConsistentRead": pattern.strong,
        }
        data = await self.wire.call("GetItem", request)
        _count(pattern, 1)
        return pattern.model.from_raw_data(data["Item"]) if data.get("Item") else None

    async def query(
        self,
        pattern: AccessPattern[M],
        hash_key: str,
        *,
        where: Condition | None = None,
        limit: int | None = None,
        forward: bool = True,
        after: Mapping[str, str | int] | None = None,
    ) -> Page[M]:
        """One request: up to `limit` items, starting behind the key attributes `after`."""
        page = await self.query_raw(pattern, hash_key, where=where, limit=limit, forward=forward, after=after)
        return Page(items=[pattern.model.from_raw_data(raw) for raw in page.items], more=page.more)

    async def query_raw(
        self,
        pattern: AccessPattern[Any],
        hash_key: str,
        *,
        where: Condition | None = None,
        limit: int | None = None,
        forward: bool = True,
        after: Mapping[str, str | int] | None = None,
    ) -> RawPage:
        """The same with items in DynamoDB's own form, for hot paths."""
        _require(pattern, Operation.QUERY)
        table = self.table_name(pattern.model)
        request = requests.query(table, pattern, hash_key, where=where, limit=limit, forward=forward, after=after)
        data = await self.wire.call("Query", request)
        _count(pattern, len(data["Items"]))
        return RawPage(items=data["Items"], more="LastEvaluatedKey" in data)

    async def query_all(self, pattern: AccessPattern[M], hash_key: str) -> list[M]:
        """Every item of a collection that is bounded by design, page after page."""
        page = await self.query(pattern, hash_key)
        items = page.items
        while page.more:
            page = await self.query(pattern, hash_key, after=requests.position_of(pattern, items[-1]))
            items += page.items
        return items

    async def count(self, pattern: AccessPattern[M], hash_key: str) -> int:
        """How many items a collection holds; only the number travels."""
        _require(pattern, Operation.QUERY)
        request = requests.query(self.table_name(pattern.model), pattern, hash_key, where=None)
        request["Select"] = "COUNT"
        total = 0
        while True:
            data = await self.wire.call("Query", request)
            total += int(data["Count"])
            if "LastEvaluatedKey" not in data:
                _count(pattern, total)
                return total
            request["ExclusiveStartKey"] = data["LastEvaluatedKey"]

    async def scan(self, pattern: AccessPattern[Any], *, limit: int, start: RawItem | None = None) -> ScanPage:
        """One page of up to `limit` items of a table, in no order. The caller limits the rate of its calls."""
        _require(pattern, Operation.OFFLINE_SCAN)
        request = {"TableName": self.table_name(pattern.model), "ConsistentRead": pattern.strong, "Limit": limit}
        data = await self.wire.call("Scan", {**request, **({"ExclusiveStartKey": start} if start else {})})
        _count(pattern, len(data["Items"]))
        return ScanPage(items=data["Items"], next_key=data.get("LastEvaluatedKey"))

    async def batch_get(self, wanted: Mapping[AccessPattern[Any], Iterable[Key]]) -> BatchResult:
        """Read keys of one or several tables, 100 a request, concurrently. The result lacks keys that are not found."""
        pairs = [(pattern, key) for pattern, keys in wanted.items() for key in dict.fromkeys(keys)]
        by_table = {self.table_name(pattern.model): pattern for pattern in wanted}
        found: dict[AccessPattern[Any], dict[Key, RawItem]] = {pattern: {} for pattern in wanted}
        if len(pairs) <= BATCH_GET_KEYS:
            answers = await self._batch_get(pairs) if pairs else []
        else:
            reads = [self._batch_get(chunk) for chunk in _chunks(pairs, BATCH_GET_KEYS)]
            answers = list(itertools.chain.from_iterable(await asyncio.gather(*reads)))
        for table, items in answers:
            pattern = by_table[table]
            for raw in items:
                found[pattern][requests.key_of(pattern.model, raw)] = raw
        for pattern, count in Counter(pattern for pattern, _ in pairs).items():
            _count(pattern, count)
        return BatchResult(found)

    async def _batch_get(self, pairs: Sequence[tuple[AccessPattern[Any], Key]]) -> list[tuple[str, list[RawItem]]]:
        pending: dict[str, Any] = {}
        for pattern, group in itertools.groupby(pairs, key=lambda pair: pair[0]):
            _require(pattern, Operation.BATCH_GET)
            pending[self.table_name(pattern.model)] = {
                "Keys": [requests.raw_key(pattern.model, key) for _, key in group],
                "ConsistentRead": pattern.strong,
            }
        found: list[tuple[str, list[RawItem]]] = []
        async for _ in self._retry.async_tries(self._sleep):
            data = await self.wire.call("BatchGetItem", {"RequestItems": pending})
            found += data["Responses"].items()
            pending = data.get("UnprocessedKeys") or {}
            if not pending:
                return found
        raise Throttled("DynamoDB left keys unread through every retry")

    # Writes

    async def put(self, pattern: AccessPattern[M], item: M, condition: Condition | None = None) -> None:
        """Raises `ConditionFailed`."""
        _require(pattern, Operation.PUT)
        await self._write("PutItem", requests.put(self.table_name(pattern.model), item, condition))
        _count(pattern, 1)

    async def update(
        self, pattern: AccessPattern[M], key: Key, actions: Sequence[Action], condition: Condition | None = None
    ) -> M:
        """Return the item as it now is. Raises `ConditionFailed`."""
        _require(pattern, Operation.UPDATE)
        request = self._keyed(pattern, key, actions=actions, condition=condition)
        data = await self._write("UpdateItem", {**request, "ReturnValues": "ALL_NEW"})
        _count(pattern, 1)
        return pattern.model.from_raw_data(data["Attributes"])

    async def update_raw(self, pattern: AccessPattern[Any], request: dict[str, Any]) -> RawItem:
        """An update in DynamoDB's own form, for hot paths. Return what it asked for. Raises `ConditionFailed`."""
        _require(pattern, Operation.UPDATE)
        data = await self._write("UpdateItem", request)
        _count(pattern, 1)
        attributes: RawItem = data.get("Attributes", {})
        return attributes

    async def delete(self, pattern: AccessPattern[M], key: Key, condition: Condition | None = None) -> None:
        """Raises `ConditionFailed`; without a condition, deleting what is not there succeeds."""
        _require(pattern, Operation.DELETE)
        await self._write("DeleteItem", self._keyed(pattern, key, condition=condition))
        _count(pattern, 1)

    async def _write(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """One item's write, retried while a transaction holds the item. Raises `TransactionConflict`."""
        async for attempt in self._retry.async_tries(self._sleep):
            try:
                return await self.wire.call(operation, request)
            except TransactionConflict:
                if attempt == self._retry.attempts - 1:
                    raise
        raise AssertionError("a policy has one attempt at least")

    async def batch_put(self, pattern: AccessPattern[M], items: Sequence[M]) -> None:
        """Write many items, 25 a request, not atomically. Raises `Throttled` when some could not be written."""
        _require(pattern, Operation.BATCH_PUT)
        await self._batch_write(pattern, [{"PutRequest": {"Item": item.serialize()}} for item in items])

    async def batch_delete(self, pattern: AccessPattern[M], keys: Sequence[Key]) -> None:
        """Delete many items, 25 a request, not atomically. Raises `Throttled` when some could not be deleted."""
        _require(pattern, Operation.BATCH_DELETE)
        raw_keys = [requests.raw_key(pattern.model, key) for key in keys]
        await self._batch_write(pattern, [{"DeleteRequest": {"Key": raw}} for raw in raw_keys])

    async def _batch_write(self, pattern: AccessPattern[Any], writes: Sequence[dict[str, Any]]) -> None:
        for chunk in _chunks(writes, BATCH_WRITE_ITEMS):
            pending: dict[str, Any] = {self.table_name(pattern.model): chunk}
            async for _ in self._retry.async_tries(self._sleep):
                data = await self.wire.call("BatchWriteItem", {"RequestItems": pending})
                pending = data.get("UnprocessedItems", {})
                if not pending:
                    break
            if pending:
                raise Throttled("DynamoDB left items unwritten through every retry")
            _count(pattern, len(chunk))

    # Transactions

    async def transact(self, writes: Sequence[Write], *, retry: RetryPolicy | None = None) -> None:
        """All or nothing. Raises `TransactionCancelled` when a condition failed.

        A cancellation for conflicts or throttling alone is retried, and ends as `TransactionConflict`.
        """
        policy = retry or self._retry
        async for attempt in policy.async_tries(self._sleep):
            try:
                await self.transact_once(writes)
            except (TransactionCancelled, TransactionConflict) as error:
                if isinstance(error, TransactionCancelled) and not error.is_transient:
                    raise
                if attempt == policy.attempts - 1:
                    raise TransactionConflict("Another write kept holding an item") from error
            else:
                return

    async def transact_once(self, writes: Sequence[Write]) -> None:
        """All or nothing, without retries: the caller sees every cancellation with its reasons."""
        await self.wire.call("TransactWriteItems", {"TransactItems": [write.request for write in writes]})
        for pattern, count in Counter(write.pattern for write in writes).items():
            _count(pattern, count)


def _require(pattern: AccessPattern[Any], operation: Operation) -> None:
    if pattern.operation is not operation:
        raise ValueError(f"{pattern.name!r} is declared as {pattern.operation}, not {operation}")


def _count(pattern: AccessPattern[Any], items: int) -> None:
    _items(pattern.table, pattern.name).inc(items)


def _chunks(items: Sequence[Any], size: int) -> Iterable[list[Any]]:
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk
