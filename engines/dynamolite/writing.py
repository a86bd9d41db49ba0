"""The operations that write items.

A write has three steps: it is parsed from its request, prepared with what is stored, and executed after all writes of
its request have been prepared.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import orjson

from engines.dynamolite import expressions
from engines.dynamolite.errors import (
    ConditionalCheckFailedException,
    DynamoDbError,
    ItemValidationError,
    TransactionCanceledException,
    ValidationException,
)
from engines.dynamolite.expressions import NO_UPDATE, Update
from engines.dynamolite.placeholders import Placeholders
from engines.dynamolite.requests import (
    Operation,
    Request,
    Response,
    Result,
    get_table,
    read_choice,
    read_list,
    read_map,
    reject_unsupported,
)
from engines.dynamolite.store import RowKey, RowValues, Store, Table
from engines.dynamolite.values import MAX_ITEM_BYTES, Item, normalize_item, size

MAX_TRANSACTION_ITEMS = 100
MAX_TRANSACTION_BYTES = 4 * 1024 * 1024
MAX_BATCH_ITEMS = 25

_OLD = ("NONE", "ALL_OLD")
_OLD_AND_NEW = (*_OLD, "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW")


class Write:
    """The write of one item. `before` and `after` are the item before and after it, None if it does not exist.

    `row` is the row to write; None for a delete or a condition check.
    """

    __slots__ = ("_condition", "_given", "_returns_item", "after", "before", "key", "raw", "row", "table")

    key: RowKey
    row: RowValues | None
    before: Item | None
    after: Item | None
    raw: bytes

    def __init__(self, table: Table, request: Request, update: Update | None = None) -> None:
        self.table = table
        self.before = self.after = self.row = None
        self.raw = b""
        text = request.get("ConditionExpression")
        self._condition = None if text is None else expressions.condition(text)
        self._given = Placeholders.of(request)
        self._given.validate(self._condition, update)
        returned = request.get("ReturnValuesOnConditionCheckFailure")
        if returned is not None and returned not in _OLD:
            raise ValidationException(f"ReturnValuesOnConditionCheckFailure is one of {_OLD}")
        self._returns_item = returned == "ALL_OLD"

    def prepare(self, *, reads_item: bool = False) -> None:
        """Check the condition. Raises `ConditionalCheckFailedException` or `ItemValidationError`.

        Without a condition the stored item is read only if `reads_item` is set.
        """
        if reads_item or self._condition is not None:
            self._read_and_check()

    def delete(self) -> None:
        """Execute a write without a row."""

    def _read_and_check(self) -> None:
        raw = self.table.get(self.key)
        self.before = None if raw is None else orjson.loads(raw)
        if self._condition is not None and not self._condition.holds(self.before or {}, self._given):
            raise ConditionalCheckFailedException(self.before if self._returns_item else None)


class PutWrite(Write):
    __slots__ = ()

    def __init__(self, table: Table, request: Request) -> None:
        item = normalize_item(request.get("Item"))
        super().__init__(table, request)
        self.key = table.schema.keys.from_item(item)
        self.raw = orjson.dumps(item)
        if len(self.raw) > MAX_ITEM_BYTES and size(item) > MAX_ITEM_BYTES:
            raise ValidationException("Item size has exceeded the maximum allowed size")
        self.after = item
        self.row = table.row(self.key, item, self.raw)


class UpdateWrite(Write):
    """Updates the stored item, or a new one that has only its key."""

    __slots__ = ("_key", "_update")

    def __init__(self, table: Table, request: Request) -> None:
        text = request.get("UpdateExpression")
        self._update = NO_UPDATE if text is None else expressions.update(text)
        self._key = normalize_item(request.get("Key"))
        super().__init__(table, request, self._update)
        self.key = table.schema.keys.from_key(self._key)

    def prepare(self, *, reads_item: bool = False) -> None:
        self._read_and_check()
        if not self._update.attributes(self._given).isdisjoint(self.table.schema.keys.names):
            raise ItemValidationError(
                "One or more parameter values were invalid: Cannot update attribute: it is part of the key"
            )
        self.after = after = self._update.apply(self._key if self.before is None else self.before, self._given)
        self.raw = orjson.dumps(after)
        if len(self.raw) > MAX_ITEM_BYTES and size(after) > MAX_ITEM_BYTES:
            raise ItemValidationError("Item size to update has exceeded the maximum allowed size")
        self.row = self.table.row(self.key, after, self.raw)

    def return_values(self, kind: str) -> Item | None:
        item = self.before if kind.endswith("_OLD") else self.after
        if item is None or kind.startswith("ALL_"):
            return item
        return self._update.touched(item, self._given) or None


class DeleteWrite(Write):
    __slots__ = ("_key",)

    def __init__(self, table: Table, request: Request) -> None:
        self._key = normalize_item(request.get("Key"))
        super().__init__(table, request)
        self.key = table.schema.keys.from_key(self._key)

    def delete(self) -> None:
        self.table.delete(self._key)


class ConditionCheck(Write):
    __slots__ = ()

    def __init__(self, table: Table, request: Request) -> None:
        if request.get("ConditionExpression") is None:
            raise ValidationException("1 validation error detected: Value null at 'conditionExpression': not null")
        key = normalize_item(request.get("Key"))
        super().__init__(table, request)
        self.key = table.schema.keys.from_key(key)


_ACTIONS: Mapping[str, Callable[[Table, Request], Write]] = {
    "Put": PutWrite,
    "Update": UpdateWrite,
    "Delete": DeleteWrite,
    "ConditionCheck": ConditionCheck,
}


class WriteOperations:
    """They only read; the caller executes the writes that they return."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.operations: Mapping[str, Operation] = {
            "BatchWriteItem": self._batch_write_item,
            "DeleteItem": self._delete_item,
            "PutItem": self._put_item,
            "TransactWriteItems": self._transact_write_items,
            "UpdateItem": self._update_item,
        }

    def _put_item(self, request: Request) -> Result:
        return self._put_or_delete(request, PutWrite)

    def _delete_item(self, request: Request) -> Result:
        return self._put_or_delete(request, DeleteWrite)

    def _put_or_delete(self, request: Request, make: Callable[[Table, Request], Write]) -> Result:
        reject_unsupported(request)
        returns_old = read_choice(request, "ReturnValues", _OLD) == "ALL_OLD"
        write = make(get_table(self._store, request), request)
        write.prepare(reads_item=returns_old)
        return _attributes(write.before if returns_old else None), _write_calls([write])

    def _update_item(self, request: Request) -> Result:
        reject_unsupported(request)
        kind = read_choice(request, "ReturnValues", _OLD_AND_NEW) or "NONE"
        write = UpdateWrite(get_table(self._store, request), request)
        write.prepare()
        return _attributes(None if kind == "NONE" else write.return_values(kind)), _write_calls([write])

    def _batch_write_item(self, request: Request) -> Result:
        writes: list[Write] = []
        for name, entries in read_map(request, "RequestItems").items():
            table = get_table(self._store, {"TableName": name})
            parsed = [_parse_entry(table, entry) for entry in read_list({name: entries}, name)]
            if not parsed:
                raise ValidationException("The batch write request list for a table cannot be null or empty")
            writes += parsed
        if len(writes) > MAX_BATCH_ITEMS:
            raise ValidationException("Too many items requested for the BatchWriteItem call")
        _require_distinct(writes, "Provided list of item keys contains duplicates")
        return {"UnprocessedItems": {}}, _write_calls(writes)

    def _transact_write_items(self, request: Request) -> Result:
        actions = read_list(request, "TransactItems")
        if not 1 <= len(actions) <= MAX_TRANSACTION_ITEMS:
            raise ValidationException(
                "1 validation error detected: Value at 'transactItems' failed to satisfy constraint: "
                f"Member must have length between 1 and {MAX_TRANSACTION_ITEMS}"
            )
        parsed = [self._parse_action(action) for action in actions]
        writes = [write for write in parsed if isinstance(write, Write)]
        _require_distinct(writes, "Transaction request cannot include multiple operations on one item")
        _require_transaction_size(writes)
        reasons = [write if isinstance(write, ItemValidationError) else _prepare(write) for write in parsed]
        if any(reasons):
            raise TransactionCanceledException(reasons)
        _require_transaction_size(writes)
        return {}, _write_calls(writes)

    def _parse_action(self, action: Mapping[str, Request | None]) -> Write | ItemValidationError:
        """Return the write of one item of a transaction, or its cancellation reason."""
        if len(action) > 1:
            action = {kind: request for kind, request in action.items() if request is not None}
        kind, request = next(iter(action.items()), ("", None))
        if len(action) > 1 or request is None or kind not in _ACTIONS:
            raise ValidationException("TransactItems can only contain one of ConditionCheck, Put, Update or Delete")
        if kind == "Update" and request.get("UpdateExpression") is None:
            raise ValidationException("1 validation error detected: Value null at 'updateExpression': not null")
        table = get_table(self._store, request)
        try:
            return _ACTIONS[kind](table, request)
        except ItemValidationError as error:
            return error


def _write_calls(writes: Sequence[Write]) -> list[Callable[[], None]]:
    """Return the calls that execute writes of different items, with one call for all rows of a table."""
    rows: dict[Table, list[RowValues]] = {}
    for write in writes:
        if write.row is not None:
            rows.setdefault(write.table, []).append(write.row)
    return [
        *(write.delete for write in writes if write.row is None),
        *(partial(table.put, batch) for table, batch in rows.items()),
    ]


def _prepare(write: Write) -> DynamoDbError | None:
    """Return the cancellation reason, None if there is none."""
    try:
        write.prepare()
    except (ConditionalCheckFailedException, ItemValidationError) as error:
        return error
    return None


def _parse_entry(table: Table, entry: Mapping[str, Any]) -> Write:
    put = entry.get("PutRequest")
    if (put is None) == (entry.get("DeleteRequest") is None):
        raise ValidationException("An entry of a batch holds one of PutRequest and DeleteRequest")
    if put is not None:
        return PutWrite(table, {"Item": put.get("Item")})
    return DeleteWrite(table, {"Key": entry["DeleteRequest"].get("Key")})


def _require_distinct(writes: Sequence[Write], message: str) -> None:
    if len({(write.table, write.key) for write in writes}) != len(writes):
        raise ValidationException(message)


def _require_transaction_size(writes: Sequence[Write]) -> None:
    # JSON is never shorter than the size that DynamoDB counts, which is slower to compute.
    if sum(len(write.raw) for write in writes) <= MAX_TRANSACTION_BYTES:
        return
    if sum(size(write.after) for write in writes if write.after is not None) > MAX_TRANSACTION_BYTES:
        raise ValidationException("Transaction payload size cannot exceed 4MB")


def _attributes(item: Item | None) -> Response:
    return {} if item is None else {"Attributes": item}
