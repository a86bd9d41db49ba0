"""Document paths: `a`, `#n`, `a.b[3]`, and what is at their end."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from engines.dynamolite.errors import Misfit, ValidationException
from engines.dynamolite.values import NESTING, Item, Value, nesting

# A path's steps are names, placeholders of names, and list positions.
Step: TypeAlias = str | int
Path: TypeAlias = tuple[Step, ...]
Names: TypeAlias = Mapping[str, str]

NO_NAMES: Names = {}


def resolved(path: Path, names: Names) -> Path:
    """A path with attributes' names in the place of their placeholders."""
    return tuple([names.get(step, step) if isinstance(step, str) else step for step in path]) if names else path


def require_apart(paths: Sequence[Path], names: Names, kind: str) -> None:
    """Raise where one path is at or inside of another's end."""
    found = [resolved(path, names) for path in paths]
    if len({path[0] for path in found}) == len(found):
        return
    for one, other in itertools.combinations(found, 2):
        if one[: len(other)] == other[: len(one)]:
            raise ValidationException(
                f"Invalid {kind}: Two document paths overlap with each other; must remove or rewrite one of these "
                f"paths; path one: {list(one)}, path two: {list(other)}"
            )


def find(item: Item, path: Path, names: Names) -> Value | None:
    """What is at a path's end; None where the path leads nowhere."""
    value: Value | None = {"M": item}
    for step in resolved(path, names):
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


def put(item: Item, path: Path, names: Names, value: Value) -> None:
    """Put a value at a path's end; behind a list's end means at its end."""
    if len(path) - 1 + nesting(value) > NESTING:
        raise Misfit("Nesting Levels have exceeded supported limits: attributes nest too deeply")
    parent, last = _parent(item, path, names)
    if isinstance(last, str):
        parent["M"][last] = value
    elif last < len(parent["L"]):
        parent["L"][last] = value
    else:
        parent["L"].append(value)


def remove(item: Item, path: Path, names: Names) -> None:
    """Remove what is at a path's end, if anything is there."""
    parent, last = _parent(item, path, names)
    if isinstance(last, str):
        parent["M"].pop(last, None)
    elif last < len(parent["L"]):
        del parent["L"][last]


def remove_all(item: Item, paths: Sequence[Path], names: Names) -> None:
    """Remove what is at several paths, whose list positions are those before the first removal."""
    if len(paths) == 1:
        remove(item, paths[0], names)
        return

    def from_the_end(path: Path) -> list[tuple[bool, Step]]:
        return [(isinstance(step, int), step) for step in path]

    for path in sorted((resolved(path, names) for path in paths), key=from_the_end, reverse=True):
        remove(item, path, NO_NAMES)


def _parent(item: Item, path: Path, names: Names) -> tuple[Value, Step]:
    """The map or list that holds a path's end. Raises where it is not there."""
    value: Value | None = {"M": item}
    steps = resolved(path, names)
    for step in steps[:-1]:
        value = None if value is None else _member(value, step)
    if value is None or ("L" if isinstance(steps[-1], int) else "M") not in value:
        raise Misfit("The document path provided in the update expression is invalid for update")
    return value, steps[-1]


def project(item: Item, paths: Sequence[Path], names: Names) -> Item:
    """What is at some paths, inside of the maps and lists that lead there."""
    found: Item = {}
    for path in paths:
        value = find(item, path, names)
        if value is not None:
            _keep(found, resolved(path, names), value)
    return {name: _without_gaps(value) for name, value in found.items()}


def _keep(found: Item, steps: Path, value: Value) -> None:
    """Put a projected value where it was. Lists keep their members' positions until `_without_gaps`."""
    place: Any = found
    for step, following in itertools.pairwise([*steps, None]):
        if following is None:
            place[step] = value
        else:
            kind = "L" if isinstance(following, int) else "M"
            place = place.setdefault(step, {kind: {}})[kind]


def _without_gaps(value: Value) -> Value:
    kind, content = next(iter(value.items()))
    if kind == "L" and isinstance(content, dict):
        return {"L": [_without_gaps(content[position]) for position in sorted(content)]}
    if kind == "M":
        return {"M": {name: _without_gaps(member) for name, member in content.items()}}
    return value
