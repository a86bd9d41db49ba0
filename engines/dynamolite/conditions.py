"""The parts of conditions: operands, comparisons, functions.

Each is a function of an item and the request's placeholders. Values of placeholders are checked before an item is read,
as in DynamoDB: `a < :v` with a boolean value is an error, while `a < b` with two boolean attributes is false.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any, TypeAlias

from engines.dynamolite import paths
from engines.dynamolite.errors import ValidationException
from engines.dynamolite.paths import Path
from engines.dynamolite.placeholders import Placeholders
from engines.dynamolite.values import SETS, TYPES, Item, Value, comparable, equal, value_size

Predicate: TypeAlias = Callable[[Item, Placeholders], bool]
Getter: TypeAlias = Callable[[Item, Placeholders], Value | None]
Check: TypeAlias = Callable[[Placeholders], None]

ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
ORDERED_TYPES = frozenset({"S", "N", "B"})
PREFIX_TYPES = frozenset({"S", "B"})
SIZED_TYPES = SETS | {"S", "B", "L", "M"}


@dataclass(frozen=True, slots=True)
class Operand:
    """The source of a value: a placeholder, a path, or the size of either."""

    get: Getter
    placeholder: str | None = None
    path: Path | None = None


def given_value(placeholder: str) -> Operand:
    return Operand(lambda _, given: given.values[placeholder], placeholder=placeholder)


def attribute(path: Path) -> Operand:
    name = str(path[0])
    if len(path) > 1:
        return Operand(lambda item, given: paths.find(item, path, given.names), path=path)
    if name[0] == "#":
        return Operand(lambda item, given: item.get(given.names[name]), path=path)
    return Operand(lambda item, _: item.get(name), path=path)


def size_of(operand: Operand) -> Operand:
    def measure(item: Item, given: Placeholders) -> Value | None:
        value = operand.get(item, given)
        size = None if value is None else value_size(value)
        return None if size is None else {"N": str(size)}

    return Operand(measure)


# Checks of the values of placeholders


def require_types(operands: Sequence[Operand], allowed: Collection[str], kind: str, operator: str) -> Check | None:
    """Return a check that the operands from placeholders have an allowed type."""
    placeholders = [operand.placeholder for operand in operands if operand.placeholder is not None]

    def check(given: Placeholders) -> None:
        for placeholder in placeholders:
            found = next(iter(given.values[placeholder]))
            if found not in allowed:
                raise ValidationException(
                    f"Invalid {kind}: Incorrect operand type for operator or function; operator or function: "
                    f"{operator}, operand type: {found}"
                )

    return check if placeholders else None


def require_distinct(operands: Sequence[Operand], kind: str, operator: str) -> Check | None:
    """Return a check that no attribute is compared with itself."""
    first, *others = [operand.path for operand in operands]
    if first is None or not any(others):
        return None

    def check(given: Placeholders) -> None:
        path = paths.resolve(first, given.names)
        if any(other is not None and paths.resolve(other, given.names) == path for other in others):
            raise ValidationException(
                f"Invalid {kind}: The first operand must be distinct from the remaining operands for this operator "
                f"or function; operator: {operator}, first operand: {list(path)}"
            )

    return check


def require_bounds(low: Operand, high: Operand, kind: str) -> Check | None:
    """Return a check that the lower bound is not above the upper one."""
    if low.placeholder is None or high.placeholder is None:
        return None
    first, last = low.placeholder, high.placeholder

    def check(given: Placeholders) -> None:
        require_between(given.values[first], given.values[last], kind)

    return check


def require_between(low: Value, high: Value, kind: str) -> None:
    one, other = comparable(low), comparable(high)
    if one is None or other is None or one[0] != other[0] or one[1] > other[1]:
        raise ValidationException(
            f"Invalid {kind}: The BETWEEN operator requires upper bound to be greater than or equal to lower bound, "
            "and both to be of one type"
        )


def require_type_name(operand: Operand, kind: str) -> Check:
    def check(given: Placeholders) -> None:
        wanted = None if operand.placeholder is None else given.values[operand.placeholder].get("S")
        if wanted not in TYPES:
            raise ValidationException(f"Invalid {kind}: Invalid attribute type name found; type: {wanted}")

    return check


# Comparisons and functions. With a missing value every comparison is false, except `<>`.


def compared(left: Operand, operator: str, right: Operand) -> Predicate:
    one_of, other_of = left.get, right.get

    def equals(item: Item, given: Placeholders) -> bool:
        one, other = one_of(item, given), other_of(item, given)
        return one is not None and other is not None and (one == other or equal(one, other))

    if operator == "=":
        return equals
    if operator == "<>":
        return lambda item, given: not equals(item, given)
    compare = ORDERS[operator]

    def holds(item: Item, given: Placeholders) -> bool:
        one, other = one_of(item, given), other_of(item, given)
        if one is None or other is None:
            return False
        low, high = comparable(one), comparable(other)
        return low is not None and high is not None and low[0] == high[0] and compare(low[1], high[1])

    return holds


def between(operand: Operand, low: Operand, high: Operand) -> Predicate:
    above, below = compared(operand, ">=", low), compared(operand, "<=", high)
    return lambda item, given: above(item, given) and below(item, given)


def exists(operand: Operand) -> Predicate:
    get = operand.get
    return lambda item, given: get(item, given) is not None


def is_absent(operand: Operand) -> Predicate:
    get = operand.get
    return lambda item, given: get(item, given) is None


def is_of_type(operand: Operand, wanted: Operand) -> Predicate:
    def holds(item: Item, given: Placeholders) -> bool:
        value, name = operand.get(item, given), wanted.get(item, given)
        return value is not None and name is not None and name["S"] in value

    return holds


def begins_with(operand: Operand, prefix: Operand) -> Predicate:
    def holds(item: Item, given: Placeholders) -> bool:
        value, start = operand.get(item, given), prefix.get(item, given)
        if value is None or start is None:
            return False
        one, other = comparable(value), comparable(start)
        if one is None or other is None or one[0] != other[0] or one[0] not in PREFIX_TYPES:
            return False
        return bool(one[1].startswith(other[1]))

    return holds


def contains(operand: Operand, wanted: Operand) -> Predicate:
    def holds(item: Item, given: Placeholders) -> bool:
        value, part = operand.get(item, given), wanted.get(item, given)
        return value is not None and part is not None and _is_in(part, value)

    return holds


def _is_in(part: Value, value: Value) -> bool:
    kind, content = next(iter(value.items()))
    part_kind, part_content = next(iter(part.items()))
    if kind == "L":
        return any(equal(member, part) for member in content)
    if kind in SETS:
        return kind[0] == part_kind and part_content in content
    if kind != part_kind or kind not in PREFIX_TYPES:
        return False
    whole, piece = comparable(value), comparable(part)
    return whole is not None and piece is not None and piece[1] in whole[1]
