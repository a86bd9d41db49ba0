"""The operations that write items.

A write goes three steps: it is read from its request alone, decided on what is stored, and carried out when everything
that it depends on has been decided.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import orjson

from engines.dynamolite import expressions
from engines.dynamolite.errors import (
    ConditionalCheckFailedException,
    Misfit,
    Refusal,
    TransactionCanceledException,
    ValidationException,
)
from engines.dynamolite.expressions import NO_UPDATE, Update
from engines.dynamolite.placeholders import Placeholders
from engines.dynamolite.requests import (
    Answer,
    Decision,
    Operation,
    Request,
    choice_of,
    find_shelf,
    list_of,
    map_of,
    refuse_legacy,
)
from engines.dynamolite.rows import Place, Shelf, Store, Stored
from engines.dynamolite.values import ITEM_BYTES, Item, checked_item, size

TRANSACTION_ITEMS = 100
TRANSACTION_BYTES = 4 * 1024 * 1024
BATCH_WRITE_ITEMS = 25

_OLD = ("NONE", "ALL_OLD")
_OLD_AND_NEW = (*_OLD, "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW")


class Write:
    """One item's write. `before` and `after` are the item as it was and will be, None where it is not there.

    `row` is what is written; None for a write that deletes, or does nothing.
    """

    __slots__ = ("_condition", "_given", "_shows_item", "after", "before", "place", "raw", "row", "shelf")

    place: Place
    row: Stored | None
    before: Item | None
    after: Item | None
    raw: bytes

    def __init__(self, shelf: Shelf, request: Request, update: Update | None = None) -> None:
        self.shelf = shelf
        self.before = self.after = self.row = None
        self.raw = b""
        text = request.get("ConditionExpression")
        self._condition = None if text is None else expressions.condition(text)
        self._given = Placeholders.of(request)
        self._given.require_fit(self._condition, update)
        shown = request.get("ReturnValuesOnConditionCheckFailure")
        if shown is not None and shown not in _OLD:
            raise ValidationException(f"ReturnValuesOnConditionCheckFailure is one of {_OLD}")
        self._shows_item = shown == "ALL_OLD"

    def decide(self, *, looks: bool = False) -> None:
        """Find out what the write does. Raises where the item is not as it must be.

        A write without a condition does not need to know what it replaces, unless it is told to look.
        """
        if looks or self._condition is not None:
            self._look()

    def delete(self) -> None:
        """What is left to do where there is no row."""

    def _look(self) -> None:
        raw = self.shelf.get(self.place)
        self.before = None if raw is None else orjson.loads(raw)
        if self._condition is not None and not self._condition.holds(self.before or {}, self._given):
            raise ConditionalCheckFailedException(self.before if self._shows_item else None)


class Put(Write):
    __slots__ = ()

    def __init__(self, shelf: Shelf, request: Request) -> None:
        item = checked_item(request.get("Item"))
        super().__init__(shelf, request)
        self.place = shelf.table.keys.of_item(item)
        self.raw = orjson.dumps(item)
        if len(self.raw) > ITEM_BYTES and size(item) > ITEM_BYTES:
            raise ValidationException("Item size has exceeded the maximum allowed size")
        self.after = item
        self.row = shelf.row(self.place, item, self.raw)


class Change(Write):
    """An update: of what is there, or of a new item that has nothing but its key."""

    __slots__ = ("_key", "_update")

    def __init__(self, shelf: Shelf, request: Request) -> None:
        text = request.get("UpdateExpression")
        self._update = NO_UPDATE if text is None else expressions.update(text)
        self._key = checked_item(request.get("Key"))
        super().__init__(shelf, request, self._update)
        self.place = shelf.table.keys.exactly(self._key)

    def decide(self, *, looks: bool = False) -> None:
        self._look()
        if not self._update.attributes(self._given).isdisjoint(self.shelf.table.keys.names):
            raise Misfit("One or more parameter values were invalid: Cannot update attribute: it is part of the key")
        self.after = after = self._update.apply(self._key if self.before is None else self.before, self._given)
        self.raw = orjson.dumps(after)
        if len(self.raw) > ITEM_BYTES and size(after) > ITEM_BYTES:
            raise Misfit("Item size to update has exceeded the maximum allowed size")
        self.row = self.shelf.row(self.place, after, self.raw)

    def returned(self, wanted: str) -> Item | None:
        item = self.before if wanted.endswith("_OLD") else self.after
        if item is None or wanted.startswith("ALL_"):
            return item
        return self._update.touched(item, self._given) or None


class Delete(Write):
    __slots__ = ("_key",)

    def __init__(self, shelf: Shelf, request: Request) -> None:
        self._key = checked_item(request.get("Key"))
        super().__init__(shelf, request)
        self.place = shelf.table.keys.exactly(self._key)

    def delete(self) -> None:
        self.shelf.delete(self._key)


class Check(Write):
    """Nothing but a condition."""

    __slots__ = ()

    def __init__(self, shelf: Shelf, request: Request) -> None:
        if request.get("ConditionExpression") is None:
            raise ValidationException("1 validation error detected: Value null at 'conditionExpression': not null")
        key = checked_item(request.get("Key"))
        super().__init__(shelf, request)
        self.place = shelf.table.keys.exactly(key)


_ACTIONS: Mapping[str, Callable[[Shelf, Request], Write]] = {
    "Put": Put,
    "Update": Change,
    "Delete": Delete,
    "ConditionCheck": Check,
}


class Writes:
    """The operations on a store. They look; who calls them carries out what they decide."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.operations: Mapping[str, Operation] = {
            "BatchWriteItem": self._batch_write_item,
            "DeleteItem": self._delete_item,
            "PutItem": self._put_item,
            "TransactWriteItems": self._transact_write_items,
            "UpdateItem": self._update_item,
        }

    def _put_item(self, request: Request) -> Decision:
        return self._replace(request, Put)

    def _delete_item(self, request: Request) -> Decision:
        return self._replace(request, Delete)

    def _replace(self, request: Request, make: Callable[[Shelf, Request], Write]) -> Decision:
        refuse_legacy(request)
        looks = choice_of(request, "ReturnValues", _OLD) == "ALL_OLD"
        write = make(find_shelf(self._store, request), request)
        write.decide(looks=looks)
        return _attributes(write.before if looks else None), _carrying_out([write])

    def _update_item(self, request: Request) -> Decision:
        refuse_legacy(request)
        wanted = choice_of(request, "ReturnValues", _OLD_AND_NEW) or "NONE"
        write = Change(find_shelf(self._store, request), request)
        write.decide()
        return _attributes(None if wanted == "NONE" else write.returned(wanted)), _carrying_out([write])

    def _batch_write_item(self, request: Request) -> Decision:
        writes: list[Write] = []
        for name, entries in map_of(request, "RequestItems").items():
            shelf = find_shelf(self._store, {"TableName": name})
            asked = list_of({name: entries}, name)
            if not asked:
                raise ValidationException("The batch write request list for a table cannot be null or empty")
            writes += [_batched(shelf, entry) for entry in asked]
        if len(writes) > BATCH_WRITE_ITEMS:
            raise ValidationException("Too many items requested for the BatchWriteItem call")
        _require_apart(writes, "Provided list of item keys contains duplicates")
        return {"UnprocessedItems": {}}, _carrying_out(writes)

    def _transact_write_items(self, request: Request) -> Decision:
        actions = list_of(request, "TransactItems")
        if not 1 <= len(actions) <= TRANSACTION_ITEMS:
            raise ValidationException(
                "1 validation error detected: Value at 'transactItems' failed to satisfy constraint: "
                f"Member must have length between 1 and {TRANSACTION_ITEMS}"
            )
        prepared = [self._prepared(action) for action in actions]
        writes = [write for write in prepared if isinstance(write, Write)]
        _require_apart(writes, "Transaction request cannot include multiple operations on one item")
        _require_small(writes)
        reasons = [write if isinstance(write, Misfit) else _refusal(write) for write in prepared]
        if any(reasons):
            raise TransactionCanceledException(reasons)
        _require_small(writes)
        return {}, _carrying_out(writes)

    def _prepared(self, action: Mapping[str, Request | None]) -> Write | Misfit:
        """One item's part of a transaction, or why it cannot be that."""
        if len(action) > 1:
            action = {kind: request for kind, request in action.items() if request is not None}
        kind, request = next(iter(action.items()), ("", None))
        if len(action) > 1 or request is None or kind not in _ACTIONS:
            raise ValidationException("TransactItems can only contain one of ConditionCheck, Put, Update or Delete")
        if kind == "Update" and request.get("UpdateExpression") is None:
            raise ValidationException("1 validation error detected: Value null at 'updateExpression': not null")
        shelf = find_shelf(self._store, request)
        try:
            return _ACTIONS[kind](shelf, request)
        except Misfit as misfit:
            return misfit


def _carrying_out(writes: Sequence[Write]) -> list[Callable[[], None]]:
    """What carries out writes, each of another item: table by table."""
    rows: dict[Shelf, list[Stored]] = {}
    for write in writes:
        if write.row is not None:
            rows.setdefault(write.shelf, []).append(write.row)
    return [
        *(write.delete for write in writes if write.row is None),
        *(partial(shelf.put, together) for shelf, together in rows.items()),
    ]


def _refusal(write: Write) -> Refusal | None:
    try:
        write.decide()
    except (ConditionalCheckFailedException, Misfit) as refusal:
        return refusal
    return None


def _batched(shelf: Shelf, entry: Mapping[str, Any]) -> Write:
    put = entry.get("PutRequest")
    if (put is None) == (entry.get("DeleteRequest") is None):
        raise ValidationException("An entry of a batch holds one of PutRequest and DeleteRequest")
    if put is not None:
        return Put(shelf, {"Item": put.get("Item")})
    return Delete(shelf, {"Key": entry["DeleteRequest"].get("Key")})


def _require_apart(writes: Sequence[Write], otherwise: str) -> None:
    if len({(write.shelf, write.place) for write in writes}) != len(writes):
        raise ValidationException(otherwise)


def _require_small(writes: Sequence[Write]) -> None:
    # JSON is longer than what DynamoDB counts: the exact size matters only near the limit.
    if sum(len(write.raw) for write in writes) <= TRANSACTION_BYTES:
        return
    if sum(size(write.after) for write in writes if write.after is not None) > TRANSACTION_BYTES:
        raise ValidationException("Transaction payload size cannot exceed 4MB")


def _attributes(item: Item | None) -> Answer:
    return {} if item is None else {"Attributes": item}
