"""The form in which drafts and their answers travel between `web` processes.

A dataclass is a JSON object of its fields, without those that have their default. So a process of an older version
reads what it knows; it refuses a draft with a field or a value that it does not know, because that changes what the
draft means, and ignores such a field in an answer.
"""

import types
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from foundation.kernel.errors import ParleyError
from messaging.domain import Draft, Sent

D = TypeVar("D")

ANSWERS: Mapping[str, type[Any]] = {"sent": Sent}
_NAMES = {answer: name for name, answer in ANSWERS.items()}

Decoder = Callable[[Any], Any]


class UnknownForm(ValueError):
    """What arrived is not what this version writes."""


def draft_to_wire(draft: Draft) -> Any:
    """Without its trace, which travels beside the draft: it changes nothing of what the draft means."""
    wire = _to_wire(draft)
    if draft.traceparent is not None:
        del wire["traceparent"]
    return wire


def draft_from_wire(value: object) -> Draft:
    """Raises `UnknownForm`, also for what a newer version may have added."""
    return _from_wire(Draft, value, is_strict=True)


def answer_to_wire(answer: object) -> dict[str, Any]:
    """A draft's answer, or the error that it is refused with."""
    if isinstance(answer, ParleyError):
        error = type(answer)
        return {
            "error": {
                "type": f"{error.__module__}.{error.__qualname__}",
                "code": error.code,
                "detail": answer.detail,
                "fields": answer.fields,
                "retry_after": answer.retry_after,
            }
        }
    return {_NAMES[type(answer)]: _to_wire(answer)}


def answer_from_wire(value: object) -> Any:
    """Raises `UnknownForm`."""
    match value:
        case {"error": {"type": str(name), "code": str(code), "detail": str(detail), **rest}}:
            error_class = _error_class(name, code)
            error = error_class.__new__(error_class, detail)
            # Not by its own constructor, which may take less.
            ParleyError.__init__(
                error, detail, fields=cast("Any", rest.get("fields")), retry_after=cast("Any", rest.get("retry_after"))
            )
            return error
        case dict() if len(value) == 1:
            ((name, body),) = value.items()
            if name in ANSWERS:
                return _from_wire(ANSWERS[name], body, is_strict=False)
    raise UnknownForm("an answer of unknown form")


def _error_class(name: str, code: str) -> type[ParleyError]:
    """The class by its name, or one with the same code: another version may have moved or renamed it."""
    known = list(_subclasses(ParleyError))
    for error in known:
        if f"{error.__module__}.{error.__qualname__}" == name:
            return error
    return next((error for error in known if error.code == code), ParleyError)


def _subclasses(error: type[ParleyError]) -> Iterator[type[ParleyError]]:
    yield error
    for each in error.__subclasses__():
        yield from _subclasses(each)


def _to_wire(value: Any) -> Any:
    if is_dataclass(value):
        found = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: _to_wire(each) for field, each in found if each != _default(field)}
    if isinstance(value, Mapping):
        return {key: _to_wire(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_to_wire(each) for each in value]
    if isinstance(value, frozenset | set):
        return sorted(value)
    return value


def _default(field: "Field[Any]") -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _from_wire(kind: type[D], value: object, *, is_strict: bool) -> D:
    if not isinstance(value, dict):
        raise UnknownForm(f"no {kind.__name__}")
    decoders = _decoders(cast("Hashable", kind), is_strict)
    if is_strict and value.keys() - decoders.keys():
        raise UnknownForm(f"unknown fields of {kind.__name__}: {sorted(value.keys() - decoders.keys())}")
    try:
        return kind(**{name: decoders[name](each) for name, each in value.items() if name in decoders})
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UnknownForm(f"no {kind.__name__}: {error}") from error


@cache
def _decoders(kind: Hashable, is_strict: bool) -> dict[str, Decoder]:
    hints = get_type_hints(cast("type", kind))
    return {name: _decoder(hint, is_strict=is_strict) for name, hint in hints.items()}


def _decoder(hint: Any, *, is_strict: bool) -> Decoder:
    """How a value of a field with this type is read."""
    hint = getattr(hint, "__supertype__", hint)
    origin, arguments = get_origin(hint), get_args(hint)
    read = partial(_decoder, is_strict=is_strict)
    if origin in (Union, types.UnionType):
        readers = [read(each) for each in arguments if each is not types.NoneType]
        return lambda value: None if value is None else _first_readable(readers, value)
    if origin in (tuple, frozenset):
        item = read(arguments[0])
        return lambda value: origin(map(item, _require(value, list)))
    if origin is not None and issubclass(origin, Mapping):
        item = read(arguments[1])
        return lambda value: {key: item(each) for key, each in _require(value, dict).items()}
    if is_dataclass(hint):
        return partial(_from_wire, cast("type[Any]", hint), is_strict=is_strict)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if hint is Any:
        return lambda value: value
    return lambda value: _require(value, hint)


def _first_readable(readers: Sequence[Decoder], value: object) -> Any:
    """As the first type that reads it: a text that is no value of an enumeration stays a text."""
    for reader in readers[:-1]:
        with suppress(ValueError):
            return reader(value)
    return readers[-1](value)


def _require(value: Any, kind: type[Any]) -> Any:
    if type(value) is not kind:
        raise UnknownForm(f"{kind.__name__} expected")
    return value
