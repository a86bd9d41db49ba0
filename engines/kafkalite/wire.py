"""Kafka's types on the wire: numbers big-endian, texts and lists behind their length."""

from collections.abc import Callable, Iterable
from struct import Struct
from typing import TypeVar

Item = TypeVar("Item")

BYTE, SHORT, INT, LONG = Struct(">b"), Struct(">h"), Struct(">i"), Struct(">q")
NOTHING = -1


class Unreadable(Exception):
    """Raised for what is not a request of this protocol."""


class Reader:
    """Takes values from a request, one after the other. Raises `Unreadable` where they end or make no sense."""

    __slots__ = ("_data", "_place")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def values(self, form: Struct) -> tuple[int, ...]:
        start = self._place
        self._place = end = start + form.size
        if end > len(self._data):
            raise Unreadable("a request ends too early")
        return form.unpack_from(self._data, start)

    def int16(self) -> int:
        return self.values(SHORT)[0]

    def int32(self) -> int:
        return self.values(INT)[0]

    def int64(self) -> int:
        return self.values(LONG)[0]

    def text(self) -> str:
        return self.optional_text() or ""

    def optional_text(self) -> str | None:
        size = self.int16()
        try:
            return None if size == NOTHING else self._take(size).decode()
        except UnicodeDecodeError as error:
            raise Unreadable("a text is not UTF-8") from error

    def blob(self) -> bytes:
        size = self.int32()
        return b"" if size == NOTHING else self._take(size)

    def items(self, read: Callable[[], Item]) -> list[Item]:
        return self.optional_items(read) or []

    def optional_items(self, read: Callable[[], Item]) -> list[Item] | None:
        count = self.int32()
        if count == NOTHING:
            return None
        if count < 0:
            raise Unreadable("a list of less than nothing")
        return [read() for _ in range(count)]

    def _take(self, size: int) -> bytes:
        start = self._place
        self._place = end = start + size
        if size < 0 or end > len(self._data):
            raise Unreadable("a request ends too early")
        return self._data[start:end]


def text(value: str | None) -> bytes:
    if value is None:
        return SHORT.pack(NOTHING)
    encoded = value.encode()
    return SHORT.pack(len(encoded)) + encoded


def blob(value: bytes) -> bytes:
    return INT.pack(len(value)) + value


def listed(items: Iterable[bytes]) -> bytes:
    every = list(items)
    return INT.pack(len(every)) + b"".join(every)
