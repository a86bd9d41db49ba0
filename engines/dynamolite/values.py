"""Attribute values such as `{"S": "text"}`: validation, comparison, size, and sortable keys."""

import base64
import binascii
import re
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from engines.dynamolite.errors import SerializationException, ValidationException

Value: TypeAlias = dict[str, Any]
Item: TypeAlias = dict[str, Value]
SortableKey: TypeAlias = str | bytes

MAX_ITEM_BYTES = 400 * 1024
MAX_NESTING = 32
MAX_DIGITS = 38
# Code points between these are not valid in text.
FIRST_SURROGATE, AFTER_SURROGATES = 0xD800, 0xE000
MAX_EXPONENT, MIN_EXPONENT = 125, -130

_PLAIN_INTEGER = re.compile(r"-?[1-9][0-9]{0,37}|0").fullmatch
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?").fullmatch


# Validation. Each function returns the value in its stored form, or raises a `DynamoDbError`.


def normalize_item(item: Any) -> Item:
    """Validate an item and normalize its values in place."""
    if type(item) is not dict:
        if item is None:
            raise ValidationException("1 validation error detected: Value null failed to satisfy constraint: not null")
        raise _wrong_type("a map of attribute values", item)
    for name, value in item.items():
        if not is_plain(value):
            item[name] = normalize(value)
    if "" in item:
        raise ValidationException("One or more parameter values were invalid: An attribute name may not be empty")
    return item


def is_plain(value: Any) -> bool:
    """Whether a value is a string or a normalized integer, as nearly all are: it needs no further validation."""
    if type(value) is not dict or len(value) != 1:
        return False
    if type(value.get("S")) is str:
        return True
    digits = value.get("N")
    return type(digits) is str and _PLAIN_INTEGER(digits) is not None


def normalize(value: Any, depth: int = 1) -> Value:
    if depth > MAX_NESTING:
        raise ValidationException("Nesting Levels have exceeded supported limits: attributes nest too deeply")
    if is_plain(value):
        return value  # type: ignore[no-any-return]
    kind, content = _split(value)
    check = _CHECKS.get(kind)
    if check is None:
        raise ValidationException(
            "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
        )
    return {kind: check(content, depth)}


def _split(value: Any) -> tuple[str, Any]:
    """Return the type and the content of a value. A null counts as absent."""
    if value is not None and type(value) is not dict:
        raise _wrong_type("an attribute value", value)
    given = [(kind, content) for kind, content in (value or {}).items() if content is not None]
    if not given:
        raise ValidationException(
            "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
        )
    if len(given) > 1:
        raise ValidationException(
            "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported "
            "datatypes"
        )
    return given[0]


def _wrong_type(expected: str, found: Any) -> SerializationException:
    return SerializationException(f"{type(found).__name__} cannot be converted to {expected}")


def _text(content: Any, depth: int) -> str:
    if type(content) is not str:
        raise _wrong_type("a string", content)
    return content


def number(content: Any, depth: int = 0) -> str:
    """Normalize a number: no leading or trailing zeros, no exponent."""
    if type(content) is not str:
        raise _wrong_type("a number's string", content)
    if _PLAIN_INTEGER(content):
        return content
    if not _NUMBER(content):
        raise ValidationException("The parameter cannot be converted to a numeric value: " + content[:100])
    try:
        exact = Decimal(content)
    except InvalidOperation as error:
        raise ValidationException("The parameter cannot be converted to a numeric value") from error
    digits = "".join(map(str, exact.as_tuple().digits)).strip("0")
    if len(digits) > MAX_DIGITS:
        raise ValidationException("Attempting to store more than 38 significant digits in a Number")
    if digits and exact.adjusted() > MAX_EXPONENT:
        raise ValidationException(
            "Number overflow. Attempting to store a number with magnitude larger than supported range"
        )
    if digits and exact.adjusted() < MIN_EXPONENT:
        raise ValidationException(
            "Number underflow. Attempting to store a number with magnitude smaller than supported range"
        )
    if not digits:
        return "0"
    plain = f"{exact:f}"
    return (plain.rstrip("0").rstrip(".") if "." in plain else plain).lstrip("+")


def _binary(content: Any, depth: int) -> str:
    if type(content) is not str:
        raise _wrong_type("base64", content)
    # Different base64 strings can encode equal bytes, because the last character has unused bits.
    return base64.b64encode(_bytes(content)).decode()


def _boolean(content: Any, depth: int) -> bool:
    if type(content) is not bool:
        raise _wrong_type("a boolean", content)
    return content


def _null(content: Any, depth: int) -> bool:
    if type(content) is not bool:
        raise _wrong_type("a boolean", content)
    if not content:
        raise ValidationException(
            "One or more parameter values were invalid: Null attribute value types must have the value of true"
        )
    return True


def _list(content: Any, depth: int) -> list[Value]:
    if type(content) is not list:
        raise _wrong_type("a list", content)
    return [normalize(value, depth + 1) for value in content]


def _map(content: Any, depth: int) -> Item:
    if type(content) is not dict:
        raise _wrong_type("a map", content)
    if "" in content:
        raise ValidationException("One or more parameter values were invalid: An attribute name may not be empty")
    return {name: normalize(value, depth + 1) for name, value in content.items()}


def _set_of(check: Callable[[Any, int], str]) -> Callable[[Any, int], list[str]]:
    def checked_set(content: Any, depth: int) -> list[str]:
        if type(content) is not list:
            raise _wrong_type("a list", content)
        if not content:
            raise ValidationException("One or more parameter values were invalid: An set may not be empty")
        members = [check(member, depth) for member in content]
        if len(set(members)) != len(members):
            raise ValidationException("One or more parameter values were invalid: Input collection contains duplicates")
        return members

    return checked_set


_CHECKS: Mapping[str, Callable[[Any, int], Any]] = {
    "S": _text,
    "N": number,
    "B": _binary,
    "BOOL": _boolean,
    "NULL": _null,
    "L": _list,
    "M": _map,
    "SS": _set_of(_text),
    "NS": _set_of(number),
    "BS": _set_of(_binary),
}
TYPES = frozenset(_CHECKS)
SETS = frozenset({"SS", "NS", "BS"})


def nesting_depth(value: Value) -> int:
    """Return the number of levels of a value, at least one."""
    kind, content = next(iter(value.items()))
    if kind not in {"L", "M"}:
        return 1
    members = content if kind == "L" else content.values()
    return 1 + max(map(nesting_depth, members), default=0)


# Comparisons


def equal(one: Value, other: Value) -> bool:
    (kind, left), (other_kind, right) = next(iter(one.items())), next(iter(other.items()))
    if kind != other_kind:
        return False
    if kind in SETS:
        return set(left) == set(right)
    if kind == "L":
        return len(left) == len(right) and all(map(equal, left, right))
    if kind == "M":
        return left.keys() == right.keys() and all(equal(left[name], right[name]) for name in left)
    return bool(left == right)


def comparable(value: Value) -> tuple[str, Any] | None:
    """Return the type and a Python value that sorts as in DynamoDB; None for a type without an order."""
    kind, content = next(iter(value.items()))
    if kind == "S":
        # Code points sort as their UTF-8 encodings.
        return kind, content
    if kind == "N":
        return kind, Decimal(content)
    if kind == "B":
        return kind, _bytes(content)
    return None


# Sizes


def size(item: Item) -> int:
    """Return the size of an item as DynamoDB counts it."""
    return sum(len(name.encode()) + _size(value) for name, value in item.items())


def _size(value: Value) -> int:
    kind, content = next(iter(value.items()))
    match kind:
        case "S":
            return len(content.encode())
        case "N":
            return _number_size(content)
        case "B":
            return len(_bytes(content))
        case "SS" | "NS" | "BS":
            return sum(_size({kind[0]: member}) for member in content)
        case "L":
            return 3 + sum(1 + _size(member) for member in content)
        case "M":
            return 3 + sum(1 + len(name.encode()) + _size(member) for name, member in content.items())
    return 1


def _number_size(content: str) -> int:
    """One byte, one per two significant digits on each side of the point, and one for a minus."""
    whole, _, fraction = content.lstrip("-").partition(".")
    whole = whole.lstrip("0") if fraction else whole.strip("0")
    fraction = fraction if whole else fraction.lstrip("0")
    return 1 + (len(whole) + 1) // 2 + (len(fraction) + 1) // 2 + content.startswith("-")


def value_size(value: Value) -> int | None:
    """Return the result of the function `size` in an expression; None for a type without a size."""
    kind, content = next(iter(value.items()))
    if kind == "S":
        # In UTF-16 code units, as in Java.
        return len(content.encode("utf-16-le")) // 2
    if kind == "B":
        return len(_bytes(content))
    return len(content) if kind in SETS or kind in {"L", "M"} else None


# Keys


def sortable(kind: str, content: str) -> SortableKey:
    """Return a value that SQLite sorts as DynamoDB sorts the key."""
    if kind == "S":
        return content
    if kind == "B":
        return _bytes(content)
    return _sortable_number(content)


def after_prefix(prefix: SortableKey) -> SortableKey | None:
    """Return the smallest key after all keys with a prefix; None if there is none."""
    if isinstance(prefix, bytes):
        head = prefix.rstrip(b"\xff")
        return head[:-1] + bytes((head[-1] + 1,)) if head else None
    characters = prefix.rstrip(chr(sys.maxunicode))
    if not characters:
        return None
    following = ord(characters[-1]) + 1
    return characters[:-1] + chr(AFTER_SURROGATES if following == FIRST_SURROGATE else following)


def _sortable_number(content: str) -> bytes:
    """Sign, exponent, digits. All bytes of a negative number are inverted."""
    if content == "0":
        return b"\x80"
    negative = content.startswith("-")
    whole, _, fraction = content.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = len(whole) if whole != "0" else len(digits) - len(fraction)
    encoded = bytes((0xC0, exponent - MIN_EXPONENT - 1)) + digits.rstrip("0").encode()
    return bytes(0xFF - byte for byte in encoded) + b"\xff" if negative else encoded


def _bytes(content: str) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError) as error:
        raise SerializationException("A value of type B must be base64") from error
