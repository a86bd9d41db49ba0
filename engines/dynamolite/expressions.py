"""DynamoDB's expression languages: conditions, updates, key conditions, projections.

An expression is parsed into functions of an item and the request's placeholders. The result is cached by its text,
because applications use few different expressions.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from engines.dynamolite import paths
from engines.dynamolite.conditions import Check, Predicate
from engines.dynamolite.errors import ValidationException
from engines.dynamolite.parsing import KeyPart, Parser
from engines.dynamolite.paths import Path
from engines.dynamolite.placeholders import Placeholders
from engines.dynamolite.updates import Change
from engines.dynamolite.values import Item, Value

MAX_EXPRESSION_BYTES = 4096
CACHE_SIZE = 1024


@dataclass(frozen=True, slots=True)
class Expression:
    """The placeholders of an expression, and the checks of their values."""

    placeholders: frozenset[str]
    checks: Sequence[Check]


@dataclass(frozen=True, slots=True)
class Condition(Expression):
    """`holds` evaluates it; `named` are the top-level attributes that it reads, as names or placeholders."""

    holds: Predicate
    named: frozenset[str]

    def attributes(self, given: Placeholders) -> set[str]:
        """Return the top-level attributes that it reads."""
        return {given.names.get(name, name) for name in self.named}


@dataclass(frozen=True, slots=True)
class Update(Expression):
    """`targets` are all paths that it sets or removes, `removed` those of REMOVE. Removals come last."""

    changes: Sequence[tuple[Path, Change]]
    removed: Sequence[Path]
    targets: Sequence[Path]
    is_flat: bool

    def apply(self, item: Item, given: Placeholders) -> Item:
        """Return the item after the update. Operands are read from the item before it."""
        # A change replaces the value at its target, so only a nested target needs a deep copy.
        changed = dict(item) if self.is_flat else copy.deepcopy(item)
        removed = self.removed
        for target, change in self.changes:
            if change(changed, item, given):
                removed = [*removed, target]
        if removed:
            paths.remove_all(changed, removed, given.names)
        return changed

    def attributes(self, given: Placeholders) -> set[str]:
        """Return the top-level attributes that it changes."""
        return {str(given.names.get(str(path[0]), path[0])) for path in self.targets}

    def touched(self, item: Item, given: Placeholders) -> Item:
        """Return the values of an item at the targets."""
        return paths.project(item, self.targets, given.names)


@dataclass(frozen=True, slots=True)
class KeyCondition(Expression):
    """Equality of the partition key, and at most one condition on the sort key."""

    parts: Sequence[KeyPart]

    def resolve(self, given: Placeholders) -> list[tuple[str, str, list[Value]]]:
        return [
            (given.names.get(name, name), operator, [given.values[value] for value in values])
            for name, operator, values in self.parts
        ]


@dataclass(frozen=True, slots=True)
class Projection(Expression):
    paths: Sequence[Path]

    def apply(self, item: Item, given: Placeholders) -> Item:
        return paths.project(item, self.paths, given.names)

    def attributes(self, given: Placeholders) -> set[str]:
        """Return the top-level attributes that it includes."""
        return {str(paths.resolve(path, given.names)[0]) for path in self.paths}


NO_UPDATE = Update(frozenset(), (), (), (), (), is_flat=True)


@lru_cache(CACHE_SIZE)
def condition(text: str, kind: str = "ConditionExpression") -> Condition:
    parser = _parser(text, kind)
    holds = parser.disjunction()
    parser.require_end()
    return Condition(parser.placeholders, parser.checks, holds, frozenset(parser.named))


@lru_cache(CACHE_SIZE)
def update(text: str) -> Update:
    kind = "UpdateExpression"
    parser = _parser(text, kind)
    changes, removed = parser.clauses()
    targets = [*(target for target, _ in changes), *removed]
    is_flat = all(len(path) == 1 for path in targets)
    if len(targets) > 1:
        parser.require(lambda given: paths.require_no_overlap(targets, given.names, kind))
    return Update(parser.placeholders, parser.checks, changes, removed, targets, is_flat)


@lru_cache(CACHE_SIZE)
def key_condition(text: str) -> KeyCondition:
    parser = _parser(text, "KeyConditionExpression")
    parts = list(parser.key_parts())
    parser.require_end()
    return KeyCondition(parser.placeholders, parser.checks, parts)


@lru_cache(CACHE_SIZE)
def projection(text: str) -> Projection:
    kind = "ProjectionExpression"
    parser = _parser(text, kind)
    shown = list(parser.paths())
    parser.require_end()
    if len(shown) > 1:
        parser.require(lambda given: paths.require_no_overlap(shown, given.names, kind))
    return Projection(parser.placeholders, parser.checks, shown)


def _parser(text: str, kind: str) -> Parser:
    if not text.strip():
        raise ValidationException(f"Invalid {kind}: The expression can not be empty;")
    if len(text.encode()) > MAX_EXPRESSION_BYTES:
        raise ValidationException(f"Invalid {kind}: Expression size has exceeded the maximum allowed size;")
    return Parser(text, kind)
