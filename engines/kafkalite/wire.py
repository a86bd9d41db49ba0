"""The types of Kafka's protocol: big-endian integers; strings, bytes and arrays after their length."""

from collections.abc import Callable, Iterable
from struct import Struct
from typing import TypeVar

Item = TypeVar("Item")

INT8, INT16, INT32, INT64 = Struct(">b"), Struct(">h"), Struct(">i"), Struct(">q")
NULL_LENGTH = -1


class ProtocolError(Exception):
    """Raised for bytes that are not a valid or an offered request."""


class Reader:
    """Reads the values of a request in order. Raises `ProtocolError`."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def struct(self, form: Struct) -> tuple[int, ...]:
        start = self._position
        self._position = end = start + form.size
        if end > len(self._data):
            raise ProtocolError("a request ends too early")
        return form.unpack_from(self._data, start)

    def int8(self) -> int:
        return self.struct(INT8)[0]

    def int16(self) -> int:
        return self.struct(INT16)[0]

    def int32(self) -> int:
        return self.struct(INT32)[0]

    def int64(self) -> int:
        return self.struct(INT64)[0]

    def string(self) -> str:
        return self.nullable_string() or ""

    def nullable_string(self) -> str | None:
        size = self.int16()
        try:
            return None if size == NULL_LENGTH else self._take(size).decode()
        except UnicodeDecodeError as error:
            raise ProtocolError("a string is not UTF-8") from error

    def blob(self) -> bytes:
        size = self.int32()
        return b"" if size == NULL_LENGTH else self._take(size)

    def array(self, read: Callable[[], Item]) -> list[Item]:
        return self.nullable_array(read) or []

    def nullable_array(self, read: Callable[[], Item]) -> list[Item] | None:
        count = self.int32()
        if count == NULL_LENGTH:
            return None
        if count < 0:
            raise ProtocolError("an array has a negative length")
        return [read() for _ in range(count)]

    def _take(self, size: int) -> bytes:
        start = self._position
        self._position = end = start + size
        if size < 0 or end > len(self._data):
            raise ProtocolError("a request ends too early")
        return self._data[start:end]


def string(value: str | None) -> bytes:
    if value is None:
        return INT16.pack(NULL_LENGTH)
    encoded = value.encode()
    return INT16.pack(len(encoded)) + encoded


def blob(value: bytes) -> bytes:
    return INT32.pack(len(value)) + value


def array(items: Iterable[bytes]) -> bytes:
    encoded = list(items)
    return INT32.pack(len(encoded)) + b"".join(encoded)
