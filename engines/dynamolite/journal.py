"""What has been answered for and SQLite has not committed yet: a record for each group of requests.

A commit of SQLite writes every page that a group has touched, and nearly every item lies on a page of its own; a record
holds nothing but the items. So SQLite commits once for many groups, when nobody waits or the journal is full, and
until then the journal stands in for it.

The file keeps its size, so that writing changes nothing but data. After each commit it is written from its beginning
again. A record names the round that it belongs to, and SQLite holds the round that counts, changed by the very commit
that makes the records before it worthless: there is no moment at which a record is missing, or one too many.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

SIZE = 16 * 1024 * 1024
HEAD = struct.Struct(">QII")
"""A record's round, length and checksum."""

_sync = getattr(os, "fdatasync", os.fsync)


class Journal:
    """Records of one round. For one thread."""

    def __init__(self, path: Path, *, current: int, size: int = SIZE) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._size = size
        self._current = current
        self._make_room(path.parent)
        self._end = sum(HEAD.size + len(record) for record in self._found(size))

    @property
    def has_records(self) -> bool:
        return self._end > 0

    def append(self, record: bytes) -> bool:
        """Return when the record is on disk; False, and nothing happens, where there is no room for it."""
        end = self._end + HEAD.size + len(record)
        if end > self._size:
            return False
        whole = HEAD.pack(self._current, len(record), self._checksum(record)) + record
        if os.pwrite(self._file, whole, self._end) != len(whole):
            raise OSError("a record was written in part")
        _sync(self._file)
        self._end = end
        return True

    def records(self) -> list[bytes]:
        """Those of the round, in their order. Raises `OSError` where one of them can no longer be read."""
        found = list(self._found(self._end))
        if sum(HEAD.size + len(record) for record in found) != self._end:
            raise OSError("the journal is damaged")
        return found

    def begin(self, current: int) -> None:
        """Another round, which has no records."""
        self._current, self._end = current, 0

    def close(self) -> None:
        os.close(self._file)

    def _make_room(self, directory: Path) -> None:
        """Written, not only reserved: the first use of reserved room would be a change of the file's description."""
        have = os.fstat(self._file).st_size
        if have < self._size:
            os.pwrite(self._file, bytes(self._size - have), have)
            os.fsync(self._file)
            listing = os.open(directory, os.O_RDONLY)
            os.fsync(listing)
            os.close(listing)

    def _found(self, end: int) -> Iterator[bytes]:
        """A record that is torn, or of another round, ends them."""
        data, place = os.pread(self._file, end, 0), 0
        while place + HEAD.size <= len(data):
            current, size, checksum = HEAD.unpack_from(data, place)
            record = data[place + HEAD.size : place + HEAD.size + size]
            if current != self._current or len(record) != size or checksum != self._checksum(record):
                return
            yield record
            place += HEAD.size + size

    def _checksum(self, record: bytes) -> int:
        return zlib.crc32(record, zlib.crc32(self._current.to_bytes(8)))
