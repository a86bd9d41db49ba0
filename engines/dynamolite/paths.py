"""Document paths such as `a`, `#n` and `a.b[3]`: read, set, remove and project the values at them."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from engines.dynamolite.errors import ItemValidationError, ValidationException
from engines.dynamolite.values import MAX_NESTING, Item, Value, nesting_depth

# A name, a placeholder of a name, or a list position.
Step: TypeAlias = str | int
Path: TypeAlias = tuple[Step, ...]
Names: TypeAlias = Mapping[str, str]

NO_NAMES: Names = {}


def resolve(path: Path, names: Names) -> Path:
    """Replace the placeholders in a path by the names."""
    return tuple([names.get(step, step) if isinstance(step, str) else step for step in path]) if names else path


def require_no_overlap(paths: Sequence[Path], names: Names, kind: str) -> None:
    """Raise `ValidationException` if a path is equal to another, or a prefix of it."""
    resolved = [resolve(path, names) for path in paths]
    if len({path[0] for path in resolved}) == len(resolved):
        return
    for one, other in itertools.combinations(resolved, 2):
        if one[: len(other)] == other[: len(one)]:
            raise ValidationException(
                f"Invalid {kind}: Two document paths overlap with each other; must remove or rewrite one of these "
                f"paths; path one: {list(one)}, path two: {list(other)}"
            )


def find(item: Item, path: Path, names: Names) -> Value | None:
    """Return the value at a path; None if there is none."""
    value: Value | None = {"M": item}
    for step in resolve(path, names):
        if value is None:
            return None
        value = _member(value, step)
    return value


def _member(value: Value, step: Step) -> Value | None:
    if isinstance(step, str):
        member: Value | None = value["M"].get(step) if "M" in value else None
        return member
    members: list[Value] = value.get("L", [])
    return members[step] if step < len(members) else None


def set_at(item: Item, path: Path, names: Names, value: Value) -> None:
    """Set the value at a path. A position after the end of a list appends to it."""
    if len(path) - 1 + nesting_depth(value) > MAX_NESTING:
        raise ItemValidationError("Nesting Levels have exceeded supported limits: attributes nest too deeply")
    parent, last = _parent(item, path, names)
    if isinstance(last, str):
        parent["M"][last] = value
    elif last < len(parent["L"]):
        parent["L"][last] = value
    else:
        parent["L"].append(value)


def remove_at(item: Item, path: Path, names: Names) -> None:
    """Remove the value at a path, if there is one."""
    parent, last = _parent(item, path, names)
    if isinstance(last, str):
        parent["M"].pop(last, None)
    elif last < len(parent["L"]):
        del parent["L"][last]


def remove_all(item: Item, paths: Sequence[Path], names: Names) -> None:
    """Remove the values at several paths. All list positions are those before the removal."""
    if len(paths) == 1:
        remove_at(item, paths[0], names)
        return

    def sort_key(path: Path) -> list[tuple[bool, Step]]:
        return [(isinstance(step, int), step) for step in path]

    for path in sorted((resolve(path, names) for path in paths), key=sort_key, reverse=True):
        remove_at(item, path, NO_NAMES)


def _parent(item: Item, path: Path, names: Names) -> tuple[Value, Step]:
    """Return the map or list that contains the value at a path. Raises `ItemValidationError`."""
    value: Value | None = {"M": item}
    steps = resolve(path, names)
    for step in steps[:-1]:
        value = None if value is None else _member(value, step)
    if value is None or ("L" if isinstance(steps[-1], int) else "M") not in value:
        raise ItemValidationError("The document path provided in the update expression is invalid for update")
    return value, steps[-1]


def project(item: Item, paths: Sequence[Path], names: Names) -> Item:
    """Return the values at some paths, inside of the same maps and lists."""
    found: Item = {}
    for path in paths:
        value = find(item, path, names)
        if value is not None:
            _insert(found, resolve(path, names), value)
    return {name: _compact(value) for name, value in found.items()}


def _insert(found: Item, steps: Path, value: Value) -> None:
    """Insert a projected value. Lists are maps from positions to members until `_compact`."""
    target: Any = found
    for step, following in itertools.pairwise([*steps, None]):
        if following is None:
            target[step] = value
        else:
            kind = "L" if isinstance(following, int) else "M"
            target = target.setdefault(step, {kind: {}})[kind]


def _compact(value: Value) -> Value:
    kind, content = next(iter(value.items()))
    if kind == "L" and isinstance(content, dict):
        return {"L": [_compact(content[position]) for position in sorted(content)]}
    if kind == "M":
        return {"M": {name: _compact(member) for name, member in content.items()}}
    return value
