"""The placeholders in the expressions of a request: names (`#n`) and values (`:v`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from engines.dynamolite.errors import SerializationException, ValidationException
from engines.dynamolite.values import Value, is_plain, normalize

EMPTY: frozenset[str] = frozenset()


class HasPlaceholders(Protocol):
    """An expression: the placeholders that it uses, and the checks of their values."""

    @property
    def placeholders(self) -> frozenset[str]: ...

    @property
    def checks(self) -> Sequence[Callable[["Placeholders"], None]]: ...


@dataclass(frozen=True, slots=True)
class Placeholders:
    """A request's `ExpressionAttributeNames` and `ExpressionAttributeValues`."""

    names: Mapping[str, str]
    values: Mapping[str, Value]

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> "Placeholders":
        names = request.get("ExpressionAttributeNames")
        values = request.get("ExpressionAttributeValues")
        if names is None and values is None:
            return NO_PLACEHOLDERS
        if names is not None:
            _require_map(names, "ExpressionAttributeNames")
            for placeholder, name in names.items():
                if type(name) is not str or not name:
                    raise ValidationException(f"ExpressionAttributeNames contains invalid value for key {placeholder}")
        if values is not None:
            _require_map(values, "ExpressionAttributeValues")
            for placeholder, value in values.items():
                if not is_plain(value):
                    values[placeholder] = normalize(value)
        return cls(names or {}, values or {})

    def validate(self, *expressions: HasPlaceholders | None) -> None:
        """Raise `ValidationException` for an unused or undefined placeholder, and for a failed check."""
        used = EMPTY
        for expression in expressions:
            if expression is not None:
                used = used | expression.placeholders if used else expression.placeholders
        if len(used) != len(self.names) + len(self.values) or not (
            self.names.keys() <= used and self.values.keys() <= used
        ):
            self._raise_mismatch(used)
        for expression in expressions:
            if expression is not None and expression.checks:
                for check in expression.checks:
                    check(self)

    def _raise_mismatch(self, used: frozenset[str]) -> None:
        for given, name in ((self.names, "ExpressionAttributeNames"), (self.values, "ExpressionAttributeValues")):
            if unused := given.keys() - used:
                keys = ", ".join(sorted(unused))
                raise ValidationException(f"Value provided in {name} unused in expressions: keys: {{{keys}}}")
        missing = min(used - self.names.keys() - self.values.keys(), default="")
        kind = "name used in the document path" if missing.startswith("#") else "value used in expression"
        raise ValidationException(f"An expression attribute {kind} is not defined; attribute: {missing}")


NO_PLACEHOLDERS = Placeholders({}, {})


def _require_map(given: Any, name: str) -> None:
    if type(given) is not dict:
        raise SerializationException(f"{name} is not a map")
    if not given:
        raise ValidationException(f"{name} must not be empty")
