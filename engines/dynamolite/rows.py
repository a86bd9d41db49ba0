"""Items in SQLite: a table for each table, ordered by its key; its indexes are SQLite's own.

An item's row is `pk, sk, item, expires` and a pair of key columns for each index, which are empty where the item is not
in the index. `item` is the item's JSON, which goes to a reader as it is.
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
from engines.dynamolite.tables import Table
from engines.dynamolite.values import Item, SortableKey

CACHE_KIB = 64 * 1024
STATEMENTS = 512
# Pages in the log before they are moved to the file: fewer moves, each of them longer.
CHECKPOINT_PAGES = 4000
EXPIRED_AT_ONCE = 1000
ROUND_BITS = 63
# What expired longer ago than this was rather not meant to be a time, and is kept.
LONG_AGO_SECONDS = 5 * 365 * 24 * 3600

Place: TypeAlias = tuple[SortableKey, SortableKey]
# An item's columns.
Stored: TypeAlias = list[Any]


@dataclass(frozen=True, slots=True)
class Row:
    """An item as it is stored."""

    place: Place
    raw: bytes

    def item(self) -> Item:
        item: Item = orjson.loads(self.raw)
        return item


@dataclass(frozen=True, slots=True)
class Range:
    """Which sort keys a query wants: all, or those within these bounds."""

    least: SortableKey | None = None
    above: SortableKey | None = None
    most: SortableKey | None = None
    below: SortableKey | None = None

    def bounds(self) -> list[tuple[str, SortableKey]]:
        given = ((">=", self.least), (">", self.above), ("<=", self.most), ("<", self.below))
        return [(operator, bound) for operator, bound in given if bound is not None]

    def holds(self, key: SortableKey) -> bool:
        # A table's sort keys are of one type, which is that of the bounds.
        return all(_COMPARE[operator](key, bound) for operator, bound in self.bounds())


_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {">=": ge, ">": gt, "<=": le, "<": lt}


class Shelf:
    """One table's rows. What is written is noted in `notes`, for the journal."""

    def __init__(self, database: sqlite3.Connection, table: Table, notes: list[bytes]) -> None:
        self._database = database
        self.table = table
        self._notes = notes
        self._noted_name = orjson.dumps(table.name)
        self._name = _quoted("t_" + table.name)
        self._index_keys = [index.keys for index in table.indexes.values()]
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

    def _create_index(self, name: str, columns: str, only_with: str) -> None:
        index = _quoted(f"{name}_{self.table.name}")
        self._database.execute(f"CREATE INDEX {index} ON {self._name} ({columns}) WHERE {only_with} IS NOT NULL")

    def drop(self) -> None:
        self._database.execute(f"DROP TABLE {self._name}")

    def get(self, place: Place) -> bytes | None:
        row = self._database.execute(self._select, place).fetchone()
        return None if row is None else row[0]

    def row(self, place: Place, item: Item, raw: bytes) -> Stored:
        """An item as it is written. Raises `ValidationException` where an index cannot take it."""
        values: Stored = [*place, raw, self.table.expires_at(item)]
        for keys in self._index_keys:
            values += keys.find(item) or (None, None)
        return values

    def put(self, rows: Sequence[Stored]) -> None:
        self._database.executemany(self._insert, rows)
        self._notes.append(b"[%b,[%b],[]]" % (self._noted_name, b",".join([row[2] for row in rows])))

    def delete(self, key: Item) -> None:
        self._database.execute(self._delete, self.table.keys.exactly(key))
        self._notes.append(b"[%b,[],%b]" % (self._noted_name, orjson.dumps([key])))

    def repeat(self, items: Sequence[Item], keys: Sequence[Item]) -> None:
        """Write what was noted again."""
        self.put([self.row(self.table.keys.of_item(item), item, orjson.dumps(item)) for item in items])
        for key in keys:
            self.delete(key)

    def scan(self, index: str | None, after: Sequence[SortableKey] | None, limit: int) -> Iterator[Row]:
        """All rows of a table or an index, in the order of its key, behind `after`."""
        keys = self._key_columns(index)
        where, operands = [f"{keys[0]} IS NOT NULL"], list(after or ())
        if after is not None:
            where.append(f"({', '.join(keys)}) > ({', '.join('?' * len(keys))})")
        return self._read(where, operands, keys, "ASC", limit)

    def query(
        self,
        index: str | None,
        partition: SortableKey,
        within: Range,
        *,
        after: Sequence[SortableKey] | None,
        forward: bool,
        limit: int,
    ) -> Iterator[Row]:
        """The rows of one partition, behind `after`, which has no partition in it."""
        keys = self._key_columns(index)
        where, operands = [f"{keys[0]} = ?"], [partition]
        for operator, bound in within.bounds():
            where.append(f"{keys[1]} {operator} ?")
            operands.append(bound)
        if after is not None:
            where.append(f"({', '.join(keys[1:])}) {'>' if forward else '<'} ({', '.join('?' * len(keys[1:]))})")
            operands += after
        return self._read(where, operands, keys[1:], "ASC" if forward else "DESC", limit)

    def _key_columns(self, index: str | None) -> list[str]:
        if index is None:
            return ["pk", "sk"]
        number = list(self.table.indexes).index(index)
        return [f"i{number}_pk", f"i{number}_sk", "pk", "sk"]

    def _read(
        self, where: Sequence[str], operands: Sequence[SortableKey], keys: Sequence[str], way: str, limit: int
    ) -> Iterator[Row]:
        order = ", ".join(f"{key} {way}" for key in keys)
        sql = f"SELECT pk, sk, item FROM {self._name} WHERE {' AND '.join(where)} ORDER BY {order} LIMIT ?"  # noqa: S608
        for pk, sk, raw in self._database.execute(sql, [*operands, limit]):
            yield Row((pk, sk), raw)

    def delete_expired(self, now: int) -> int:
        """Delete some of the items whose time is over; return how many."""
        expired = f"SELECT pk, sk FROM {self._name} WHERE expires BETWEEN ? AND ? LIMIT {EXPIRED_AT_ONCE}"  # noqa: S608
        delete = f"DELETE FROM {self._name} WHERE (pk, sk) IN ({expired})"  # noqa: S608
        return self._database.execute(delete, [now - LONG_AGO_SECONDS, now]).rowcount

    def note_expiry(self) -> None:
        """Note the expiry of items that were there before the table had one."""
        for pk, sk, raw in self._database.execute(f"SELECT pk, sk, item FROM {self._name}").fetchall():  # noqa: S608
            self.put([self.row((pk, sk), orjson.loads(raw), raw)])


class Store:
    """The file: its tables, and its transactions. For one thread."""

    def __init__(self, path: Path | None) -> None:
        self._database = sqlite3.connect(path or ":memory:", isolation_level=None, cached_statements=STATEMENTS)
        # One process owns the file, and a commit returns when it is on disk.
        for pragma in (
            "locking_mode = EXCLUSIVE",
            "journal_mode = WAL",
            "synchronous = FULL",
            f"cache_size = -{CACHE_KIB}",
            f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
        ):
            self._database.execute(f"PRAGMA {pragma}")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS tables (name PRIMARY KEY, description, expiry) WITHOUT ROWID"
        )
        self._database.execute("CREATE TABLE IF NOT EXISTS rounds (number PRIMARY KEY, round) WITHOUT ROWID")
        self._shelves: dict[str, Shelf] = {}
        self._notes: list[bytes] = []
        # Something happened that the journal cannot tell.
        self._must_commit = False
        # A commit failed, and may be found on disk all the same: what follows is not for the journal before another.
        self._is_doubtful = False
        # Nothing is left of a group that failed.
        self._is_whole = True
        self._load()
        self._journal = None if path is None else Journal(path.with_suffix(".journal"), current=self._round())
        with self.transaction():
            self._must_commit = True

    def close(self) -> None:
        with self.transaction():
            self._must_commit = True
        if self._journal is not None:
            self._journal.close()
        self._database.close()

    def settle(self) -> None:
        """Have SQLite commit what the journal stands in for: it takes a moment, best one in which nobody waits."""
        if self._journal is not None and self._journal.has_records:
            with self.transaction():
                self._must_commit = True

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that happens inside is on disk when it ends, or none of it happened."""
        try:
            self._begin()
            yield
            self._keep()
            self._is_whole = True
        except BaseException:
            self._notes.clear()
            self._must_commit = False
            self._take_back()
            raise

    def _begin(self) -> None:
        """Go on with SQLite's transaction, or begin one with what the journal has of it."""
        if self._database.in_transaction and self._is_whole:
            self._is_whole = False
            return
        if not self._is_whole:
            self._take_back()
        self._is_whole = False
        self._database.execute("BEGIN IMMEDIATE")
        for record in () if self._journal is None else self._journal.records():
            for name, items, keys in orjson.loads(record):
                self._shelves[name].repeat(items, keys)
        self._notes.clear()

    def _take_back(self) -> None:
        # SQLite takes some failed transactions back by itself.
        if self._database.in_transaction:
            self._database.execute("ROLLBACK")
        self._load()

    def _keep(self) -> None:
        """In the journal if that can tell it, else by a commit of all that has happened since the last."""
        journal, must_commit = self._journal, self._must_commit or self._is_doubtful
        if journal is None or must_commit or (self._notes and not journal.append(b"[%b]" % b",".join(self._notes))):
            self._commit()
        self._notes.clear()

    def _commit(self) -> None:
        following = secrets.randbits(ROUND_BITS)
        self._database.execute("INSERT OR REPLACE INTO rounds VALUES (1, ?)", [following])
        self._is_doubtful = True
        self._database.execute("COMMIT")
        self._must_commit, self._is_doubtful = False, False
        if self._journal is not None:
            self._journal.begin(following)

    def _round(self) -> int:
        row = self._database.execute("SELECT round FROM rounds").fetchone()
        return 0 if row is None else int(row[0])

    # Tables

    @property
    def names(self) -> list[str]:
        return sorted(self._shelves)

    def find(self, name: str) -> Shelf | None:
        return self._shelves.get(name)

    def create(self, table: Table) -> None:
        self._set_up(table).create()
        self._describe(table)

    def replace(self, table: Table) -> Shelf:
        """The same table, described anew."""
        self._describe(table)
        return self._set_up(table)

    def drop(self, name: str) -> None:
        self._shelves.pop(name).drop()
        self._database.execute("DELETE FROM tables WHERE name = ?", [name])
        self._must_commit = True

    def _load(self) -> None:
        self._shelves = {}
        for description, expiry in self._database.execute("SELECT description, expiry FROM tables").fetchall():
            self._set_up(Table.of(orjson.loads(description), expiry))

    def _set_up(self, table: Table) -> Shelf:
        self._shelves[table.name] = shelf = Shelf(self._database, table, self._notes)
        return shelf

    def _describe(self, table: Table) -> None:
        row = [table.name, orjson.dumps(table.description), table.expiry]
        self._database.execute("INSERT OR REPLACE INTO tables VALUES (?, ?, ?)", row)
        self._must_commit = True

    def sweep(self, now: float) -> int:
        """Delete some of what has expired; return how many items that were."""
        swept = sum(shelf.delete_expired(int(now)) for shelf in self._shelves.values() if shelf.table.expiry)
        self._must_commit = self._must_commit or swept > 0
        return swept


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
