"""The operations that read items."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from engines.dynamolite import expressions
from engines.dynamolite.conditions import require_between
from engines.dynamolite.errors import (
    DynamoDbError,
    ItemValidationError,
    TransactionCanceledException,
    ValidationException,
)
from engines.dynamolite.placeholders import Placeholders
from engines.dynamolite.requests import (
    Operation,
    Request,
    Response,
    Result,
    get_table,
    read_bool,
    read_choice,
    read_count,
    read_list,
    read_map,
    reject_unsupported,
)
from engines.dynamolite.schema import IndexSchema, KeySchema
from engines.dynamolite.store import Range, Row, RowKey, Store, Table
from engines.dynamolite.values import SortableKey, Value, after_prefix, normalize_item, size

MAX_TRANSACTION_ITEMS = 100
MAX_BATCH_KEYS = 100
MAX_BATCH_BYTES = 16 * 1024 * 1024
MAX_PAGE_BYTES = 1024 * 1024
NO_LIMIT = -1

_SELECT = ("ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES", "COUNT", "SPECIFIC_ATTRIBUTES")


class ReadOperations:
    """Every read sees all writes that were answered before it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.operations: Mapping[str, Operation] = {
            "BatchGetItem": self._batch_get_item,
            "GetItem": self._get_item,
            "Query": self._query,
            "Scan": self._scan,
            "TransactGetItems": self._transact_get_items,
        }

    def _get_item(self, request: Request) -> Result:
        reject_unsupported(request)
        read_bool(request, "ConsistentRead")
        table = get_table(self._store, request)
        project = _projector(request)
        found = table.get(table.schema.keys.from_key(normalize_item(request.get("Key"))))
        return ({} if found is None else {"Item": project(found)}), ()

    def _batch_get_item(self, request: Request) -> Result:
        found: dict[str, list[Any]] = {}
        unprocessed: dict[str, Any] = {}
        budget, total = MAX_BATCH_BYTES, 0
        for name, get in read_map(request, "RequestItems").items():
            table, keys, row_keys = self._batch_keys(name, get)
            project = _projector(get)
            total += len(row_keys)
            if total > MAX_BATCH_KEYS:
                raise ValidationException("Too many items requested for the BatchGetItem call")
            items = found.setdefault(name, [])
            for key, row_key in zip(keys, row_keys, strict=True):
                raw = table.get(row_key) if budget > 0 else None
                budget -= 0 if raw is None else len(raw)
                if budget < 0:
                    unprocessed.setdefault(name, {**get, "Keys": []})["Keys"].append(key)
                elif raw is not None:
                    items.append(project(raw))
        return {"Responses": found, "UnprocessedKeys": unprocessed}, ()

    def _batch_keys(self, name: str, get: Request) -> tuple[Table, list[Any], list[RowKey]]:
        reject_unsupported(get)
        table = get_table(self._store, {"TableName": name})
        keys = read_list(get, "Keys")
        row_keys = [table.schema.keys.from_key(normalize_item(key)) for key in keys]
        if not row_keys:
            raise ValidationException("1 validation error detected: a table of a batch must have one key at least")
        if len(set(row_keys)) != len(row_keys):
            raise ValidationException("Provided list of item keys contains duplicates")
        return table, keys, row_keys

    def _transact_get_items(self, request: Request) -> Result:
        actions = read_list(request, "TransactItems")
        if not 1 <= len(actions) <= MAX_TRANSACTION_ITEMS:
            raise ValidationException(f"A transaction has 1 to {MAX_TRANSACTION_ITEMS} items")
        gets: list[tuple[Table, RowKey, Callable[[bytes], Any]]] = []
        reasons: list[DynamoDbError | None] = []
        for action in actions:
            get = action.get("Get")
            if get is None:
                raise ValidationException("1 validation error detected: Value null at 'transactItems.get': not null")
            table, project = get_table(self._store, get), _projector(get)
            try:
                gets.append((table, table.schema.keys.from_key(normalize_item(get.get("Key"))), project))
                reasons.append(None)
            except ItemValidationError as error:
                reasons.append(error)
        if len({(table, key) for table, key, _ in gets}) != len(gets):
            raise ValidationException("Transaction request cannot include multiple operations on one item")
        if any(reasons):
            raise TransactionCanceledException(reasons)
        found = [(project, table.get(key)) for table, key, project in gets]
        return {"Responses": [{} if raw is None else {"Item": project(raw)} for project, raw in found]}, ()

    def _query(self, request: Request) -> Result:
        reject_unsupported(request)
        table = get_table(self._store, request)
        text = request.get("KeyConditionExpression")
        if text is None:
            raise ValidationException("Either the KeyConditions or KeyConditionExpression parameter must be specified")
        condition = expressions.key_condition(text)
        read = PagedRead(request, table, condition)
        partition, bounds = _parse_key_condition(read.keys, condition.resolve(read.given))
        read.require_no_key_filter()
        start = read.start_key()
        if start is not None and (start[0] != partition or not bounds.contains(start[1])):
            raise ValidationException("The provided starting key does not match the range key predicate")
        is_forward = read_bool(request, "ScanIndexForward", default=True)
        after = None if start is None else start[1:]
        rows = table.query(read.index_name, partition, bounds, after=after, forward=is_forward, limit=read.limit)
        return read.page(rows), ()

    def _scan(self, request: Request) -> Result:
        reject_unsupported(request)
        table = get_table(self._store, request)
        read = PagedRead(request, table, None)
        return read.page(table.scan(read.index_name, read.start_key(), read.limit)), ()


class PagedRead:
    """The common part of Query and Scan: index, start key, filter, projection, limits of a page."""

    def __init__(self, request: Request, table: Table, key_condition: expressions.KeyCondition | None) -> None:
        self._request = request
        self._schema = table.schema
        self._index = _index(table, request)
        self.given = Placeholders.of(request)
        filter_, projection = request.get("FilterExpression"), request.get("ProjectionExpression")
        self._filter = None if filter_ is None else expressions.condition(filter_, "FilterExpression")
        self._projection = None if projection is None else expressions.projection(projection)
        self.given.validate(self._filter, self._projection, key_condition)
        self.limit = read_count(request, "Limit") or NO_LIMIT
        if read_bool(request, "ConsistentRead") and self._index is not None and self._index.is_global:
            raise ValidationException("Consistent reads are not supported on global secondary indexes")
        self._select = read_choice(request, "Select", _SELECT)
        self._require_select()
        self._is_unprojected = self._reads_whole_items()

    @property
    def keys(self) -> KeySchema:
        return self._schema.keys if self._index is None else self._index.keys

    @property
    def index_name(self) -> str | None:
        return None if self._index is None else self._index.name

    @property
    def _key_names(self) -> list[str]:
        return list(dict.fromkeys((*self.keys.names, *self._schema.keys.names)))

    def _require_select(self) -> None:
        if self._projection is not None and self._select not in {None, "SPECIFIC_ATTRIBUTES"}:
            raise ValidationException(f"Cannot specify the ProjectionExpression when choosing to get {self._select}")
        if self._projection is None and self._select == "SPECIFIC_ATTRIBUTES":
            raise ValidationException("Must specify the ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
        if self._index is None and self._select == "ALL_PROJECTED_ATTRIBUTES":
            raise ValidationException("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")

    def _reads_whole_items(self) -> bool:
        """Whether the read returns all attributes, not only those of the index. Raises `ValidationException`."""
        index = self._index
        if index is None or index.projection == "ALL":
            return True
        if self._filter is not None and (missing := self._filter.attributes(self.given) - index.included):
            raise ValidationException(f"Secondary index {index.name} does not project filter attributes: {missing}")
        wanted = set() if self._projection is None else self._projection.attributes(self.given)
        needs_table = self._select == "ALL_ATTRIBUTES" or not wanted <= index.included
        # Only a local index can fetch the other attributes from its table.
        if needs_table and index.is_global:
            raise ValidationException(f"Global secondary index {index.name} does not project {wanted or 'everything'}")
        return needs_table

    def require_no_key_filter(self) -> None:
        named = set() if self._filter is None else self._filter.attributes(self.given)
        if keys := named.intersection(self.keys.names):
            raise ValidationException(f"Filter Expression can only contain non-primary key attributes: {min(keys)}")

    def start_key(self) -> list[SortableKey] | None:
        """Return the whole key after which the page starts."""
        key = self._request.get("ExclusiveStartKey")
        if key is None:
            return None
        key = normalize_item(key)
        if key.keys() != set(self._key_names):
            raise ValidationException("The provided starting key is invalid")
        table_key = self._schema.keys.from_item(key)
        return [*table_key] if self._index is None else [*self._index.keys.from_item(key), *table_key]

    def page(self, rows: Iterator[Row]) -> Response:
        items: list[Any] = []
        read: list[Row] = []
        size = _PageSize()
        is_cut = False
        for row in rows:
            read.append(row)
            if (item := self._project(row)) is not None:
                items.append(item)
            if size.exceeds_limit_with(row):
                is_cut = True
                break
        response: Response = {"Count": len(items), "ScannedCount": len(read)}
        if self._select != "COUNT":
            response["Items"] = items
        if is_cut or len(read) == self.limit:
            last = read[-1].item()
            response["LastEvaluatedKey"] = {name: last[name] for name in self._key_names}
        return response

    def _project(self, row: Row) -> Any:
        """Return what the response has of a row; None if the filter excludes it."""
        if self._is_unprojected and self._filter is None and self._projection is None:
            return orjson.Fragment(row.raw)
        item = row.item()
        if self._index is not None and not self._is_unprojected:
            item = self._index.project(item)
        if self._filter is not None and not self._filter.holds(item, self.given):
            return None
        return item if self._projection is None else self._projection.apply(item, self.given)


class _PageSize:
    """The size of the rows of a page so far."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._raw = 0
        self._exact = 0

    def exceeds_limit_with(self, row: Row) -> bool:
        """Add a row. Returns whether the page is larger than its limit."""
        self._rows.append(row)
        self._raw += len(row.raw)
        # JSON is never shorter than the size that DynamoDB counts, which is slower to compute.
        if self._raw <= MAX_PAGE_BYTES:
            return False
        self._exact += sum(size(each.item()) for each in self._rows)
        self._rows.clear()
        return self._exact > MAX_PAGE_BYTES


def _index(table: Table, request: Request) -> IndexSchema | None:
    name = request.get("IndexName")
    if name is None:
        return None
    if name not in table.schema.indexes:
        raise ValidationException(f"The table does not have the specified index: {name}")
    return table.schema.indexes[name]


def _projector(request: Request) -> Callable[[bytes], Any]:
    """Return the function from a stored item to its projection."""
    text, given = request.get("ProjectionExpression"), Placeholders.of(request)
    projection = None if text is None else expressions.projection(text)
    given.validate(projection)
    return orjson.Fragment if projection is None else lambda raw: projection.apply(orjson.loads(raw), given)


def _parse_key_condition(keys: KeySchema, parts: list[tuple[str, str, list[Value]]]) -> tuple[SortableKey, Range]:
    """Return the partition key and the range of the sort keys. Raises `ValidationException`."""
    partition: SortableKey | None = None
    bounds: Range | None = None
    for name, operator, values in parts:
        if name == keys.partition and operator == "=" and partition is None:
            partition = keys.partition_operand(values[0])
        elif name == keys.sort and bounds is None:
            if operator == "between":
                require_between(values[0], values[1], "KeyConditionExpression")
            if operator == "begins_with" and keys.sort_type == "N":
                raise ValidationException("Invalid KeyConditionExpression: Incorrect operand type for begins_with: N")
            bounds = _range(operator, [keys.sort_operand(value) for value in values])
        else:
            raise ValidationException(f"Query key condition not supported: {name} {operator}")
    if partition is None:
        raise ValidationException(f"Query condition missed key schema element: {keys.partition}")
    return partition, bounds or Range()


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
