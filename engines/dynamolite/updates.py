"""The parts of updates: sums, lists, sets. Each is a function of an item and the request's placeholders."""

from collections.abc import Callable
from decimal import Context, Decimal, Inexact
from typing import TypeAlias

from engines.dynamolite import paths
from engines.dynamolite.conditions import Getter, Operand
from engines.dynamolite.errors import ItemValidationError, ValidationException
from engines.dynamolite.paths import Path
from engines.dynamolite.placeholders import Placeholders
from engines.dynamolite.values import MAX_DIGITS, SETS, Item, Value, number

# Changes the first item. The second is the item before the update. Returns whether the target must be removed.
Change: TypeAlias = Callable[[Item, Item, Placeholders], bool]

EXACT = Context(prec=MAX_DIGITS, traps=[Inexact])
ADDED_TYPES = SETS | {"N"}


def setting(target: Path, value: Getter) -> Change:
    name = str(target[0])

    def change_attribute(item: Item, before: Item, given: Placeholders) -> bool:
        item[given.names.get(name, name)] = _present(value(before, given))
        return False

    if len(target) == 1:
        return change_attribute

    def change(item: Item, before: Item, given: Placeholders) -> bool:
        paths.set_at(item, target, given.names, _present(value(before, given)))
        return False

    return change


def adding(target: Path, operand: Operand) -> Change:
    def change(item: Item, before: Item, given: Placeholders) -> bool:
        added = _present(operand.get(before, given))
        paths.set_at(item, target, given.names, _with(paths.find(before, target, given.names), added))
        return False

    return change


def deleting(target: Path, operand: Operand) -> Change:
    def change(item: Item, before: Item, given: Placeholders) -> bool:
        left = _without(paths.find(before, target, given.names), _present(operand.get(before, given)))
        if left is None:
            return True
        paths.set_at(item, target, given.names, left)
        return False

    return change


def if_absent(operand: Operand, otherwise: Getter) -> Getter:
    def choose(item: Item, given: Placeholders) -> Value | None:
        found = operand.get(item, given)
        return otherwise(item, given) if found is None else found

    return choose


def total(left: Getter, right: Getter, *, is_negative: bool) -> Getter:
    def add(item: Item, given: Placeholders) -> Value:
        one, other = _present(left(item, given)), _present(right(item, given))
        if "N" not in one or "N" not in other:
            raise _wrong_type()
        return _sum(one["N"], other["N"], is_negative=is_negative)

    return add


def joined(left: Getter, right: Getter) -> Getter:
    def join(item: Item, given: Placeholders) -> Value:
        one, other = _present(left(item, given)), _present(right(item, given))
        if "L" not in one or "L" not in other:
            raise _wrong_type()
        return {"L": one["L"] + other["L"]}

    return join


def _present(value: Value | None) -> Value:
    if value is None:
        raise ItemValidationError("The provided expression refers to an attribute that does not exist in the item")
    return value


def _wrong_type() -> ItemValidationError:
    return ItemValidationError("An operand in the update expression has an incorrect data type")


def _sum(one: str, other: str, *, is_negative: bool = False) -> Value:
    combine = EXACT.subtract if is_negative else EXACT.add
    try:
        return {"N": number(str(combine(Decimal(one), Decimal(other))))}
    except Inexact as error:
        raise ItemValidationError(f"DynamoDB only supports precision up to {MAX_DIGITS} digits") from error
    except ValidationException as error:
        raise ItemValidationError(str(error)) from error


def _with(value: Value | None, added: Value) -> Value:
    """Return the result of `ADD`: a sum, or a union of sets."""
    if value is None:
        return added
    kind, content = next(iter(added.items()))
    if kind not in value:
        raise _wrong_type()
    return _sum(value["N"], content) if kind == "N" else {kind: list(dict.fromkeys([*value[kind], *content]))}


def _without(value: Value | None, removed: Value) -> Value | None:
    """Return the result of `DELETE` from a set; None if it is empty."""
    if value is None:
        return None
    kind, content = next(iter(removed.items()))
    if kind not in value:
        raise _wrong_type()
    left = [member for member in value[kind] if member not in content]
    return {kind: left} if left else None
