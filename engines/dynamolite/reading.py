"""The operations that read items."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from engines.dynamolite import expressions
from engines.dynamolite.conditions import require_between
from engines.dynamolite.errors import (
    Misfit,
    Refusal,
    TransactionCanceledException,
    ValidationException,
)
from engines.dynamolite.placeholders import Placeholders
from engines.dynamolite.requests import (
    Answer,
    Decision,
    Operation,
    Request,
    choice_of,
    count_of,
    find_shelf,
    is_set,
    list_of,
    map_of,
    refuse_legacy,
)
from engines.dynamolite.rows import Place, Range, Row, Shelf, Store
from engines.dynamolite.tables import Index, Keys
from engines.dynamolite.values import SortableKey, Value, after_prefix, checked_item, size

TRANSACTION_ITEMS = 100
BATCH_GET_KEYS = 100
BATCH_GET_BYTES = 16 * 1024 * 1024
PAGE_BYTES = 1024 * 1024
UNLIMITED = -1

_SELECT = ("ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES", "COUNT", "SPECIFIC_ATTRIBUTES")


class Reads:
    """The operations on a store. Every read sees all that was answered before it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.operations: Mapping[str, Operation] = {
            "BatchGetItem": self._batch_get_item,
            "GetItem": self._get_item,
            "Query": self._query,
            "Scan": self._scan,
            "TransactGetItems": self._transact_get_items,
        }

    def _get_item(self, request: Request) -> Decision:
        refuse_legacy(request)
        is_set(request, "ConsistentRead")
        shelf = find_shelf(self._store, request)
        show = _shower(request)
        found = shelf.get(shelf.table.keys.exactly(checked_item(request.get("Key"))))
        return ({} if found is None else {"Item": show(found)}), ()

    def _batch_get_item(self, request: Request) -> Decision:
        found: dict[str, list[Any]] = {}
        left: dict[str, Any] = {}
        budget, total = BATCH_GET_BYTES, 0
        for name, wanted in map_of(request, "RequestItems").items():
            shelf, keys, places = self._batched(name, wanted)
            show = _shower(wanted)
            total += len(places)
            if total > BATCH_GET_KEYS:
                raise ValidationException("Too many items requested for the BatchGetItem call")
            items = found.setdefault(name, [])
            for key, place in zip(keys, places, strict=True):
                raw = shelf.get(place) if budget > 0 else None
                budget -= 0 if raw is None else len(raw)
                if budget < 0:
                    left.setdefault(name, {**wanted, "Keys": []})["Keys"].append(key)
                elif raw is not None:
                    items.append(show(raw))
        return {"Responses": found, "UnprocessedKeys": left}, ()

    def _batched(self, name: str, wanted: Request) -> tuple[Shelf, list[Any], list[Place]]:
        refuse_legacy(wanted)
        shelf = find_shelf(self._store, {"TableName": name})
        keys = list_of(wanted, "Keys")
        places = [shelf.table.keys.exactly(checked_item(key)) for key in keys]
        if not places:
            raise ValidationException("1 validation error detected: a table of a batch must have one key at least")
        if len(set(places)) != len(places):
            raise ValidationException("Provided list of item keys contains duplicates")
        return shelf, keys, places

    def _transact_get_items(self, request: Request) -> Decision:
        actions = list_of(request, "TransactItems")
        if not 1 <= len(actions) <= TRANSACTION_ITEMS:
            raise ValidationException(f"A transaction has 1 to {TRANSACTION_ITEMS} items")
        asked: list[tuple[Shelf, Place, Callable[[bytes], Any]]] = []
        reasons: list[Refusal | None] = []
        for action in actions:
            wanted = action.get("Get")
            if wanted is None:
                raise ValidationException("1 validation error detected: Value null at 'transactItems.get': not null")
            shelf, show = find_shelf(self._store, wanted), _shower(wanted)
            try:
                asked.append((shelf, shelf.table.keys.exactly(checked_item(wanted.get("Key"))), show))
                reasons.append(None)
            except Misfit as misfit:
                reasons.append(misfit)
        if len({(shelf, place) for shelf, place, _ in asked}) != len(asked):
            raise ValidationException("Transaction request cannot include multiple operations on one item")
        if any(reasons):
            raise TransactionCanceledException(reasons)
        found = [(show, shelf.get(place)) for shelf, place, show in asked]
        return {"Responses": [{} if raw is None else {"Item": show(raw)} for show, raw in found]}, ()

    def _query(self, request: Request) -> Decision:
        refuse_legacy(request)
        shelf = find_shelf(self._store, request)
        text = request.get("KeyConditionExpression")
        if text is None:
            raise ValidationException("Either the KeyConditions or KeyConditionExpression parameter must be specified")
        condition = expressions.key_condition(text)
        reading = Reading(request, shelf, condition)
        partition, within = _bounds(reading.keys, condition.resolved(reading.given))
        reading.refuse_filtered_keys()
        after = reading.after()
        if after is not None and (after[0] != partition or not within.holds(after[1])):
            raise ValidationException("The provided starting key does not match the range key predicate")
        is_forward = is_set(request, "ScanIndexForward", otherwise=True)
        rest = None if after is None else after[1:]
        rows = shelf.query(reading.index_name, partition, within, after=rest, forward=is_forward, limit=reading.limit)
        return reading.page(rows), ()

    def _scan(self, request: Request) -> Decision:
        refuse_legacy(request)
        shelf = find_shelf(self._store, request)
        reading = Reading(request, shelf, None)
        return reading.page(shelf.scan(reading.index_name, reading.after(), reading.limit)), ()


class Reading:
    """What queries and scans share: where they go on, what they leave out, where they stop."""

    def __init__(self, request: Request, shelf: Shelf, key_condition: expressions.KeyCondition | None) -> None:
        self._request = request
        self._table = shelf.table
        self._index = _index(shelf, request)
        self.given = Placeholders.of(request)
        filtering, projecting = request.get("FilterExpression"), request.get("ProjectionExpression")
        self._filter = None if filtering is None else expressions.condition(filtering, "FilterExpression")
        self._projection = None if projecting is None else expressions.projection(projecting)
        self.given.require_fit(self._filter, self._projection, key_condition)
        self.limit = count_of(request, "Limit") or UNLIMITED
        if is_set(request, "ConsistentRead") and self._index is not None and self._index.is_global:
            raise ValidationException("Consistent reads are not supported on global secondary indexes")
        self._select = choice_of(request, "Select", _SELECT)
        self._require_select()
        self._shows_whole = self._is_whole()

    @property
    def keys(self) -> Keys:
        return self._table.keys if self._index is None else self._index.keys

    @property
    def index_name(self) -> str | None:
        return None if self._index is None else self._index.name

    @property
    def _key_names(self) -> list[str]:
        return list(dict.fromkeys((*self.keys.names, *self._table.keys.names)))

    def _require_select(self) -> None:
        if self._projection is not None and self._select not in {None, "SPECIFIC_ATTRIBUTES"}:
            raise ValidationException(f"Cannot specify the ProjectionExpression when choosing to get {self._select}")
        if self._projection is None and self._select == "SPECIFIC_ATTRIBUTES":
            raise ValidationException("Must specify the ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
        if self._index is None and self._select == "ALL_PROJECTED_ATTRIBUTES":
            raise ValidationException("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")

    def _is_whole(self) -> bool:
        """Whether whole items are read, or what an index holds of them. Raises where an index lacks what is asked."""
        index = self._index
        if index is None or index.projection == "ALL":
            return True
        if self._filter is not None and (missing := self._filter.attributes(self.given) - index.included):
            raise ValidationException(f"Secondary index {index.name} does not project filter attributes: {missing}")
        wanted = set() if self._projection is None else self._projection.attributes(self.given)
        reaches_out = self._select == "ALL_ATTRIBUTES" or not wanted <= index.included
        # An index of the same partition fetches the rest from its table.
        if reaches_out and index.is_global:
            raise ValidationException(f"Global secondary index {index.name} does not project {wanted or 'everything'}")
        return reaches_out

    def refuse_filtered_keys(self) -> None:
        named = set() if self._filter is None else self._filter.attributes(self.given)
        if keys := named.intersection(self.keys.names):
            raise ValidationException(f"Filter Expression can only contain non-primary key attributes: {min(keys)}")

    def after(self) -> list[SortableKey] | None:
        """The whole key behind which to go on."""
        key = self._request.get("ExclusiveStartKey")
        if key is None:
            return None
        key = checked_item(key)
        if key.keys() != set(self._key_names):
            raise ValidationException("The provided starting key is invalid")
        own = self._table.keys.of_item(key)
        return [*own] if self._index is None else [*self._index.keys.of_item(key), *own]

    def page(self, rows: Iterator[Row]) -> Answer:
        items: list[Any] = []
        read: list[Row] = []
        room = _Room()
        is_cut = False
        for row in rows:
            read.append(row)
            if (shown := self._shown(row)) is not None:
                items.append(shown)
            if room.is_passed_by(row):
                is_cut = True
                break
        answer: Answer = {"Count": len(items), "ScannedCount": len(read)}
        if self._select != "COUNT":
            answer["Items"] = items
        if is_cut or len(read) == self.limit:
            item = read[-1].item()
            answer["LastEvaluatedKey"] = {name: item[name] for name in self._key_names}
        return answer

    def _shown(self, row: Row) -> Any:
        """A row as it is sent, None where the filter leaves it out."""
        if self._shows_whole and self._filter is None and self._projection is None:
            return orjson.Fragment(row.raw)
        item = row.item()
        if self._index is not None and not self._shows_whole:
            item = self._index.visible(item)
        if self._filter is not None and not self._filter.holds(item, self.given):
            return None
        return item if self._projection is None else self._projection.apply(item, self.given)


class _Room:
    """How much of a page is left."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._raw = 0
        self._exact = 0

    def is_passed_by(self, row: Row) -> bool:
        """Whether this row and those before it are more than a page holds."""
        self._rows.append(row)
        self._raw += len(row.raw)
        # JSON is longer than what DynamoDB counts: the exact size matters only near the limit.
        if self._raw <= PAGE_BYTES:
            return False
        self._exact += sum(size(each.item()) for each in self._rows)
        self._rows.clear()
        return self._exact > PAGE_BYTES


def _index(shelf: Shelf, request: Request) -> Index | None:
    name = request.get("IndexName")
    if name is None:
        return None
    if name not in shelf.table.indexes:
        raise ValidationException(f"The table does not have the specified index: {name}")
    return shelf.table.indexes[name]


def _shower(request: Request) -> Callable[[bytes], Any]:
    """What makes of a stored item what a request asks to see."""
    text, given = request.get("ProjectionExpression"), Placeholders.of(request)
    projection = None if text is None else expressions.projection(text)
    given.require_fit(projection)
    return orjson.Fragment if projection is None else lambda raw: projection.apply(orjson.loads(raw), given)


def _bounds(keys: Keys, parts: list[tuple[str, str, list[Value]]]) -> tuple[SortableKey, Range]:
    """Where a key condition looks."""
    partition: SortableKey | None = None
    within: Range | None = None
    for name, operator, values in parts:
        if name == keys.partition and operator == "=" and partition is None:
            partition = keys.partition_operand(values[0])
        elif name == keys.sort and within is None:
            if operator == "between":
                require_between(values[0], values[1], "KeyConditionExpression")
            if operator == "begins_with" and keys.sort_type == "N":
                raise ValidationException("Invalid KeyConditionExpression: Incorrect operand type for begins_with: N")
            within = _range(operator, [keys.sort_operand(value) for value in values])
        else:
            raise ValidationException(f"Query key condition not supported: {name} {operator}")
    if partition is None:
        raise ValidationException(f"Query condition missed key schema element: {keys.partition}")
    return partition, within or Range()


def _range(operator: str, operands: list[SortableKey]) -> Range:
    first, last = operands[0], operands[-1]
    match operator:
        case "<":
            return Range(below=first)
        case "<=":
            return Range(most=first)
        case ">":
            return Range(above=first)
        case ">=":
            return Range(least=first)
        case "begins_with":
            return Range(least=first, below=after_prefix(first))
    return Range(least=first, most=last)
