"""The journal: a record for each batch of requests that SQLite has not committed yet.

A commit in SQLite writes every page that was touched, and most items are on a page of their own; a record has only the
items. So a batch is appended to the journal, and SQLite commits many batches at once, when there are no requests or
when the journal is full.

The file has a fixed size and is overwritten from its start after each commit. Every record has an epoch. SQLite stores
the current epoch and changes it in the same commit that makes the records obsolete, so a crash at any moment neither
loses a record nor replays one twice.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

JOURNAL_BYTES = 16 * 1024 * 1024
HEADER = struct.Struct(">QII")
"""Epoch, length and checksum of a record."""

_sync = getattr(os, "fdatasync", os.fsync)


class Journal:
    """The records of one epoch. For one thread."""

    def __init__(self, path: Path, *, epoch: int, size: int = JOURNAL_BYTES) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._size = size
        self._epoch = epoch
        self._preallocate(path.parent)
        self._end = sum(HEADER.size + len(record) for record in self._read(size))

    @property
    def has_records(self) -> bool:
        return self._end > 0

    def append(self, record: bytes) -> bool:
        """Return True once the record is on disk, False if there is no room for it."""
        end = self._end + HEADER.size + len(record)
        if end > self._size:
            return False
        data = HEADER.pack(self._epoch, len(record), self._checksum(record)) + record
        if os.pwrite(self._file, data, self._end) != len(data):
            raise OSError("a record was written in part")
        _sync(self._file)
        self._end = end
        return True

    def records(self) -> list[bytes]:
        """Return the records of the epoch in order. Raises `OSError` if one of them is damaged."""
        records = list(self._read(self._end))
        if sum(HEADER.size + len(record) for record in records) != self._end:
            raise OSError("the journal is damaged")
        return records

    def start_epoch(self, epoch: int) -> None:
        """Discard all records."""
        self._epoch, self._end = epoch, 0

    def close(self) -> None:
        os.close(self._file)

    def _preallocate(self, directory: Path) -> None:
        """Write the whole file, so that `append` changes no metadata and `fdatasync` syncs only data."""
        size = os.fstat(self._file).st_size
        if size < self._size:
            os.pwrite(self._file, bytes(self._size - size), size)
            os.fsync(self._file)
            descriptor = os.open(directory, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)

    def _read(self, end: int) -> Iterator[bytes]:
        """Stop at the first record that is incomplete or of another epoch."""
        data, position = os.pread(self._file, end, 0), 0
        while position + HEADER.size <= len(data):
            epoch, size, checksum = HEADER.unpack_from(data, position)
            record = data[position + HEADER.size : position + HEADER.size + size]
            if epoch != self._epoch or len(record) != size or checksum != self._checksum(record):
                return
            yield record
            position += HEADER.size + size

    def _checksum(self, record: bytes) -> int:
        return zlib.crc32(record, zlib.crc32(self._epoch.to_bytes(8)))
