"""Items in SQLite: one SQLite table per table, ordered by its key, with one SQLite index per secondary index.

A row is `pk, sk, item, expires` and a pair of key columns for each secondary index, NULL if the item is not in the
index. `item` is the item's JSON, which is sent to clients as it is.
"""

import secrets
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import ge, gt, le, lt
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from engines.dynamolite.journal import Journal
from engines.dynamolite.schema import TableSchema
from engines.dynamolite.values import Item, SortableKey

CACHE_KIB = 64 * 1024
CACHED_STATEMENTS = 512
# Pages in SQLite's WAL before SQLite moves them to the file.
WAL_CHECKPOINT_PAGES = 4000
EXPIRY_BATCH = 1000
EPOCH_BITS = 63
# DynamoDB does not delete items that expired more than five years ago.
MAX_EXPIRED_SECONDS = 5 * 365 * 24 * 3600

RowKey: TypeAlias = tuple[SortableKey, SortableKey]
# The columns of a row.
RowValues: TypeAlias = list[Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A stored item."""

    key: RowKey
    raw: bytes

    def item(self) -> Item:
        item: Item = orjson.loads(self.raw)
        return item


@dataclass(frozen=True, slots=True)
class Range:
    """The bounds of the sort keys of a query; None means no bound."""

    least: SortableKey | None = None
    above: SortableKey | None = None
    most: SortableKey | None = None
    below: SortableKey | None = None

    def limits(self) -> list[tuple[str, SortableKey]]:
        given = ((">=", self.least), (">", self.above), ("<=", self.most), ("<", self.below))
        return [(operator, bound) for operator, bound in given if bound is not None]

    def contains(self, key: SortableKey) -> bool:
        # All sort keys of a table, and the bounds, have one type.
        return all(_COMPARE[operator](key, bound) for operator, bound in self.limits())


_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {">=": ge, ">": gt, "<=": le, "<": lt}


class Table:
    """The rows of one table. Every write is added to `changes`, for the journal."""

    def __init__(self, database: sqlite3.Connection, schema: TableSchema, changes: list[bytes]) -> None:
        self._database = database
        self.schema = schema
        self._changes = changes
        self._json_name = orjson.dumps(schema.name)
        self._name = _quoted("t_" + schema.name)
        self._index_keys = [index.keys for index in schema.indexes.values()]
        columns = [f"i{number}_{part}" for number in range(len(self._index_keys)) for part in ("pk", "sk")]
        marks = ", ".join("?" * (4 + len(columns)))
        self._select = f"SELECT item FROM {self._name} WHERE pk = ? AND sk = ?"  # noqa: S608 - the name is quoted
        self._insert = f"INSERT OR REPLACE INTO {self._name} VALUES ({marks})"  # noqa: S608 - as above
        self._delete = f"DELETE FROM {self._name} WHERE pk = ? AND sk = ?"  # noqa: S608 - as above
        self._columns = columns

    def create(self) -> None:
        columns = ", ".join(["pk NOT NULL", "sk NOT NULL", "item BLOB NOT NULL", "expires INTEGER", *self._columns])
        self._database.execute(f"CREATE TABLE {self._name} ({columns}, PRIMARY KEY (pk, sk)) WITHOUT ROWID")
        for number in range(len(self._index_keys)):
            self._create_index(f"i{number}", f"i{number}_pk, i{number}_sk, pk, sk", f"i{number}_pk")
        self._create_index("expiry", "expires", "expires")

    def _create_index(self, name: str, columns: str, not_null: str) -> None:
        index = _quoted(f"{name}_{self.schema.name}")
        self._database.execute(f"CREATE INDEX {index} ON {self._name} ({columns}) WHERE {not_null} IS NOT NULL")

    def drop(self) -> None:
        self._database.execute(f"DROP TABLE {self._name}")

    def get(self, key: RowKey) -> bytes | None:
        row = self._database.execute(self._select, key).fetchone()
        return None if row is None else row[0]

    def row(self, key: RowKey, item: Item, raw: bytes) -> RowValues:
        """Return the row of an item. Raises `ValidationException` if an index key is invalid."""
        values: RowValues = [*key, raw, self.schema.expires_at(item)]
        for keys in self._index_keys:
            values += keys.find(item) or (None, None)
        return values

    def put(self, rows: Sequence[RowValues]) -> None:
        self._database.executemany(self._insert, rows)
        self._changes.append(b"[%b,[%b],[]]" % (self._json_name, b",".join([row[2] for row in rows])))

    def delete(self, key: Item) -> None:
        self._database.execute(self._delete, self.schema.keys.from_key(key))
        self._changes.append(b"[%b,[],%b]" % (self._json_name, orjson.dumps([key])))

    def replay(self, items: Sequence[Item], keys: Sequence[Item]) -> None:
        """Write changes from the journal again."""
        self.put([self.row(self.schema.keys.from_item(item), item, orjson.dumps(item)) for item in items])
        for key in keys:
            self.delete(key)

    def scan(self, index: str | None, after: Sequence[SortableKey] | None, limit: int) -> Iterator[Row]:
        """Read all rows of the table or an index in the order of its key, after the key `after`."""
        keys = self._key_columns(index)
        where, operands = [f"{keys[0]} IS NOT NULL"], list(after or ())
        if after is not None:
            where.append(f"({', '.join(keys)}) > ({', '.join('?' * len(keys))})")
        return self._read(where, operands, keys, "ASC", limit)

    def query(
        self,
        index: str | None,
        partition: SortableKey,
        bounds: Range,
        *,
        after: Sequence[SortableKey] | None,
        forward: bool,
        limit: int,
    ) -> Iterator[Row]:
        """Read the rows of one partition after the key `after`, which does not include the partition key."""
        keys = self._key_columns(index)
        where, operands = [f"{keys[0]} = ?"], [partition]
        for operator, bound in bounds.limits():
            where.append(f"{keys[1]} {operator} ?")
            operands.append(bound)
        if after is not None:
            where.append(f"({', '.join(keys[1:])}) {'>' if forward else '<'} ({', '.join('?' * len(keys[1:]))})")
            operands += after
        return self._read(where, operands, keys[1:], "ASC" if forward else "DESC", limit)

    def _key_columns(self, index: str | None) -> list[str]:
        if index is None:
            return ["pk", "sk"]
        number = list(self.schema.indexes).index(index)
        return [f"i{number}_pk", f"i{number}_sk", "pk", "sk"]

    def _read(
        self, where: Sequence[str], operands: Sequence[SortableKey], keys: Sequence[str], direction: str, limit: int
    ) -> Iterator[Row]:
        order = ", ".join(f"{column} {direction}" for column in keys)
        sql = f"SELECT pk, sk, item FROM {self._name} WHERE {' AND '.join(where)} ORDER BY {order} LIMIT ?"  # noqa: S608
        for pk, sk, raw in self._database.execute(sql, [*operands, limit]):
            yield Row((pk, sk), raw)

    def delete_expired(self, now: int) -> int:
        """Delete one batch of expired items; return their number."""
        expired = f"SELECT pk, sk FROM {self._name} WHERE expires BETWEEN ? AND ? LIMIT {EXPIRY_BATCH}"  # noqa: S608
        delete = f"DELETE FROM {self._name} WHERE (pk, sk) IN ({expired})"  # noqa: S608
        return self._database.execute(delete, [now - MAX_EXPIRED_SECONDS, now]).rowcount

    def update_expiry(self) -> None:
        """Set the `expires` column of all rows after the TTL attribute has changed."""
        for pk, sk, raw in self._database.execute(f"SELECT pk, sk, item FROM {self._name}").fetchall():  # noqa: S608
            self.put([self.row((pk, sk), orjson.loads(raw), raw)])


class Store:
    """The SQLite file: its tables and its transactions. For one thread."""

    def __init__(self, path: Path | None) -> None:
        self._database = sqlite3.connect(path or ":memory:", isolation_level=None, cached_statements=CACHED_STATEMENTS)
        # One process owns the file, and COMMIT returns when the data is on disk.
        for pragma in (
            "locking_mode = EXCLUSIVE",
            "journal_mode = WAL",
            "synchronous = FULL",
            f"cache_size = -{CACHE_KIB}",
            f"wal_autocheckpoint = {WAL_CHECKPOINT_PAGES}",
        ):
            self._database.execute(f"PRAGMA {pragma}")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS tables (name PRIMARY KEY, description, expiry) WITHOUT ROWID"
        )
        # The file format calls the journal's epoch a round.
        self._database.execute("CREATE TABLE IF NOT EXISTS rounds (number PRIMARY KEY, round) WITHOUT ROWID")
        self._tables: dict[str, Table] = {}
        self._changes: list[bytes] = []
        # True after a change that the journal cannot represent.
        self._must_commit = False
        # True after a failed COMMIT, which may be on disk all the same: the next transaction must commit too.
        self._is_in_doubt = False
        # False during a transaction and after a failed one: the next begins anew and replays the journal.
        self._is_clean = True
        self._load()
        self._journal = None if path is None else Journal(path.with_suffix(".journal"), epoch=self._epoch())
        with self.transaction():
            self._must_commit = True

    def close(self) -> None:
        with self.transaction():
            self._must_commit = True
        if self._journal is not None:
            self._journal.close()
        self._database.close()

    def checkpoint(self) -> None:
        """Commit in SQLite what is only in the journal. It takes a moment, best one without requests."""
        if self._journal is not None and self._journal.has_records:
            with self.transaction():
                self._must_commit = True

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside is on disk at the end, or has no effect."""
        try:
            self._begin()
            yield
            self._persist()
            self._is_clean = True
        except BaseException:
            self._changes.clear()
            self._must_commit = False
            self._rollback()
            raise

    def _begin(self) -> None:
        """Continue SQLite's transaction, or begin one and replay the journal."""
        if self._database.in_transaction and self._is_clean:
            self._is_clean = False
            return
        if not self._is_clean:
            self._rollback()
        self._is_clean = False
        self._database.execute("BEGIN IMMEDIATE")
        for record in () if self._journal is None else self._journal.records():
            for name, items, keys in orjson.loads(record):
                self._tables[name].replay(items, keys)
        self._changes.clear()

    def _rollback(self) -> None:
        # SQLite itself rolls back some failed transactions.
        if self._database.in_transaction:
            self._database.execute("ROLLBACK")
        self._load()

    def _persist(self) -> None:
        """Append the changes to the journal. If that is not possible, commit everything since the last commit."""
        journal, must_commit = self._journal, self._must_commit or self._is_in_doubt
        if journal is None or must_commit or (self._changes and not journal.append(b"[%b]" % b",".join(self._changes))):
            self._commit()
        self._changes.clear()

    def _commit(self) -> None:
        epoch = secrets.randbits(EPOCH_BITS)
        self._database.execute("INSERT OR REPLACE INTO rounds VALUES (1, ?)", [epoch])
        self._is_in_doubt = True
        self._database.execute("COMMIT")
        self._must_commit, self._is_in_doubt = False, False
        if self._journal is not None:
            self._journal.start_epoch(epoch)

    def _epoch(self) -> int:
        row = self._database.execute("SELECT round FROM rounds").fetchone()
        return 0 if row is None else int(row[0])

    # Tables

    @property
    def names(self) -> list[str]:
        return sorted(self._tables)

    def find(self, name: str) -> Table | None:
        return self._tables.get(name)

    def create(self, schema: TableSchema) -> None:
        self._add(schema).create()
        self._save(schema)

    def replace(self, schema: TableSchema) -> Table:
        """Replace the schema of a table."""
        self._save(schema)
        return self._add(schema)

    def drop(self, name: str) -> None:
        self._tables.pop(name).drop()
        self._database.execute("DELETE FROM tables WHERE name = ?", [name])
        self._must_commit = True

    def _load(self) -> None:
        self._tables = {}
        for description, ttl_attribute in self._database.execute("SELECT description, expiry FROM tables").fetchall():
            self._add(TableSchema.parse(orjson.loads(description), ttl_attribute))

    def _add(self, schema: TableSchema) -> Table:
        self._tables[schema.name] = table = Table(self._database, schema, self._changes)
        return table

    def _save(self, schema: TableSchema) -> None:
        row = [schema.name, orjson.dumps(schema.description), schema.ttl_attribute]
        self._database.execute("INSERT OR REPLACE INTO tables VALUES (?, ?, ?)", row)
        self._must_commit = True

    def delete_expired(self, now: float) -> int:
        """Delete one batch of expired items per table; return their number."""
        tables = [table for table in self._tables.values() if table.schema.ttl_attribute]
        deleted = sum(table.delete_expired(int(now)) for table in tables)
        self._must_commit = self._must_commit or deleted > 0
        return deleted


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
