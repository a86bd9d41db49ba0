"""The grammar of expressions: a recursive descent parser that returns functions."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from engines.dynamolite import conditions, updates
from engines.dynamolite.conditions import ORDERS, Check, Getter, Operand, Predicate
from engines.dynamolite.errors import ValidationException
from engines.dynamolite.paths import Path, Step
from engines.dynamolite.reserved import RESERVED
from engines.dynamolite.updates import Change
from engines.dynamolite.values import MAX_NESTING, SETS

MAX_OPERATORS = 300
MAX_IN_OPERANDS = 100
MAX_LIST_POSITION = 2**31 - 1

_TOKENS = re.compile(r"\s*(?:([A-Za-z][A-Za-z0-9_]*|[#:][A-Za-z0-9_]+)|(0|[1-9][0-9]*)|(<>|<=|>=|[=<>(),.\[\]+-]))")
_OPERATORS = frozenset({"=", "<>", "<", "<=", ">", ">=", "AND", "OR", "NOT", "BETWEEN", "IN", "+", "-"})
_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_FUNCTIONS = frozenset({"attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains"})

# The name of a key attribute, an operator, and the placeholders of its operands.
KeyPart = tuple[str, str, Sequence[str]]


@dataclass(slots=True)
class Parser:
    """Every failure is a `ValidationException` with the token at which it happened.

    `checks` are the checks of the values of placeholders; `named` are the first steps of all paths.
    """

    text: str
    kind: str
    tokens: list[str] = field(init=False)
    position: int = field(init=False, default=0)
    checks: list[Check] = field(init=False, default_factory=list)
    named: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.tokens = []
        position = 0
        text = self.text.rstrip()
        while position < len(text):
            found = _TOKENS.match(text, position)
            if found is None:
                raise ValidationException(f'Invalid {self.kind}: Syntax error; token: "{text[position:].strip()[0]}"')
            self.tokens.append(found[0].strip())
            position = found.end()
        if sum(token.upper() in _OPERATORS for token in self.tokens) > MAX_OPERATORS:
            raise ValidationException(f"Invalid {self.kind}: The expression contains too many operators")

    @property
    def placeholders(self) -> frozenset[str]:
        return frozenset(token for token in self.tokens if token[0] in "#:")

    # Tokens

    @property
    def next(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    @property
    def is_call(self) -> bool:
        return self.tokens[self.position + 1 : self.position + 2] == ["("]

    def take(self) -> str:
        token = self.next
        if not token:
            self.fail()
        self.position += 1
        return token

    def takes(self, *wanted: str) -> bool:
        if self.next.upper() in wanted:
            self.position += 1
            return True
        return False

    def expect(self, wanted: str) -> None:
        if not self.takes(wanted):
            self.fail()

    def fail(self) -> NoReturn:
        near = " ".join(self.tokens[max(0, self.position - 1) : self.position + 2])
        raise ValidationException(f'Invalid {self.kind}: Syntax error; token: "{self.next or "<EOF>"}", near: "{near}"')

    def require_end(self) -> None:
        if self.next:
            self.fail()

    def require_single_parentheses(self, opened: int) -> None:
        """Raise for `((…))`. The position is after the outer parentheses."""
        if self.tokens[opened] != "(" or self.tokens[self.position - 2] != ")":
            return
        depth = 0
        for index in range(opened, self.position - 2):
            depth += {"(": 1, ")": -1}.get(self.tokens[index], 0)
            if depth == 0:
                return
        raise ValidationException(f"Invalid {self.kind}: The expression has redundant parentheses;")

    def require(self, *checks: Check | None) -> None:
        self.checks += [check for check in checks if check is not None]

    # Conditions

    def disjunction(self) -> Predicate:
        terms = [self.conjunction()]
        while self.takes("OR"):
            terms.append(self.conjunction())
        return terms[0] if len(terms) == 1 else lambda item, given: any(term(item, given) for term in terms)

    def conjunction(self) -> Predicate:
        terms = [self.negation()]
        while self.takes("AND"):
            terms.append(self.negation())
        return terms[0] if len(terms) == 1 else lambda item, given: all(term(item, given) for term in terms)

    def negation(self) -> Predicate:
        if self.takes("NOT"):
            inner = self.negation()
            return lambda item, given: not inner(item, given)
        if self.takes("("):
            opened = self.position
            inner = self.disjunction()
            self.expect(")")
            self.require_single_parentheses(opened)
            return inner
        return self.comparison()

    def comparison(self) -> Predicate:
        if self.is_call and self.next in _FUNCTIONS:
            return self.function()
        left = self.operand()
        operator = self.take().upper()
        if operator == "BETWEEN":
            return self.between(left)
        if operator == "IN":
            return self.choice(left)
        if operator not in ORDERS and operator not in {"=", "<>"}:
            self.position -= 1
            self.fail()
        right = self.operand()
        if operator in ORDERS:
            self.require(conditions.require_types([left, right], conditions.ORDERED_TYPES, self.kind, operator))
        self.require(conditions.require_distinct([left, right], self.kind, operator))
        return conditions.compared(left, operator, right)

    def between(self, left: Operand) -> Predicate:
        low = self.operand()
        self.expect("AND")
        high = self.operand()
        self.require(
            conditions.require_types([left, low, high], conditions.ORDERED_TYPES, self.kind, "BETWEEN"),
            conditions.require_bounds(low, high, self.kind),
            conditions.require_distinct([left, low, high], self.kind, "BETWEEN"),
        )
        return conditions.between(left, low, high)

    def choice(self, left: Operand) -> Predicate:
        self.expect("(")
        choices = [self.operand()]
        while self.takes(","):
            choices.append(self.operand())
        self.expect(")")
        if len(choices) > MAX_IN_OPERANDS:
            raise ValidationException(f"Invalid {self.kind}: The IN operator is provided with too many operands")
        self.require(conditions.require_distinct([left, *choices], self.kind, "IN"))
        matches = [conditions.compared(left, "=", choice) for choice in choices]
        return lambda item, given: any(match(item, given) for match in matches)

    def function(self) -> Predicate:
        name = self.take()
        self.expect("(")
        if name in {"attribute_exists", "attribute_not_exists"}:
            operand = conditions.attribute(self.path())
            self.expect(")")
            return conditions.exists(operand) if name == "attribute_exists" else conditions.is_absent(operand)
        operand = self.operand()
        self.expect(",")
        other = self.operand()
        self.expect(")")
        self.require(conditions.require_distinct([operand, other], self.kind, name))
        if name == "contains":
            return conditions.contains(operand, other)
        if name == "attribute_type":
            self.require(conditions.require_type_name(other, self.kind))
            return conditions.is_of_type(operand, other)
        self.require(conditions.require_types([operand, other], conditions.PREFIX_TYPES, self.kind, name))
        return conditions.begins_with(operand, other)

    def operand(self) -> Operand:
        if self.next == "size" and self.is_call:
            self.position += 2
            inner = self.plain_operand()
            self.expect(")")
            self.require(conditions.require_types([inner], conditions.SIZED_TYPES, self.kind, "size"))
            return conditions.size_of(inner)
        return self.plain_operand()

    def plain_operand(self) -> Operand:
        if self.next.startswith(":"):
            return conditions.given_value(self.take())
        return conditions.attribute(self.path())

    # Paths

    def path(self) -> Path:
        first = self.name()
        self.named.add(first)
        steps: list[Step] = [first]
        while True:
            if self.takes("."):
                steps.append(self.name())
            elif self.takes("["):
                steps.append(self.list_position())
                self.expect("]")
            else:
                break
        if len(steps) > MAX_NESTING:
            raise ValidationException(f"Invalid {self.kind}: The document path has too many nesting levels")
        return tuple(steps)

    def list_position(self) -> int:
        token = self.take()
        if not token.isdigit():
            self.position -= 1
            self.fail()
        if int(token) > MAX_LIST_POSITION:
            raise ValidationException(f"Invalid {self.kind}: List index is not within the allowable range: [{token}]")
        return int(token)

    def name(self) -> str:
        token = self.take()
        if token[0] != "#" and not token[0].isalpha():
            self.position -= 1
            self.fail()
        if token.upper() in RESERVED:
            raise ValidationException(
                f"Invalid {self.kind}: Attribute name is a reserved keyword; reserved keyword: {token}"
            )
        return token

    def paths(self) -> Iterator[Path]:
        yield self.path()
        while self.takes(","):
            yield self.path()

    # Updates

    def clauses(self) -> tuple[list[tuple[Path, Change]], list[Path]]:
        """Return the changes with their targets, and the paths to remove."""
        changes: list[tuple[Path, Change]] = []
        removed: list[Path] = []
        seen: set[str] = set()
        while self.next:
            clause = self.take().upper()
            if clause in seen or clause not in {*_CLAUSES, "REMOVE"}:
                self.position -= 1
                self.fail()
            seen.add(clause)
            if clause == "REMOVE":
                removed += self.paths()
                continue
            changes.append(self.change(_CLAUSES[clause]))
            while self.takes(","):
                changes.append(self.change(_CLAUSES[clause]))
        # Values after the end of a list are appended in the order of their positions.
        changes.sort(key=lambda change: change[0][-1] if isinstance(change[0][-1], int) else 0)
        return changes, removed

    def change(self, make: Callable[["Parser", Path], Change]) -> tuple[Path, Change]:
        target = self.path()
        return target, make(self, target)

    def setting(self, target: Path) -> Change:
        self.expect("=")
        opened = self.position + 1
        if self.takes("("):
            value = self.sum()
            self.expect(")")
            self.require_single_parentheses(opened)
        else:
            value = self.sum()
        return updates.setting(target, value)

    def sum(self) -> Getter:
        left = self.term()
        if self.next not in {"+", "-"}:
            return left.get
        operator = self.take()
        right = self.term()
        self.require(conditions.require_types([left, right], {"N"}, self.kind, operator))
        return updates.total(left.get, right.get, is_negative=operator == "-")

    def term(self) -> Operand:
        if self.takes("("):
            opened = self.position
            inner = self.term()
            self.expect(")")
            self.require_single_parentheses(opened)
            return inner
        if not self.is_call:
            return self.plain_operand()
        function = self.take()
        self.expect("(")
        if function == "if_not_exists":
            operand = conditions.attribute(self.path())
            self.expect(",")
            otherwise = self.term()
            self.expect(")")
            return Operand(updates.if_absent(operand, otherwise.get))
        if function != "list_append":
            raise ValidationException(f"Invalid {self.kind}: Invalid function name; function: {function}")
        first = self.term()
        self.expect(",")
        second = self.term()
        self.expect(")")
        self.require(conditions.require_types([first, second], {"L"}, self.kind, function))
        return Operand(updates.joined(first.get, second.get))

    def adding(self, target: Path) -> Change:
        operand = conditions.given_value(self.value())
        self.require(conditions.require_types([operand], updates.ADDED_TYPES, self.kind, "ADD"))
        return updates.adding(target, operand)

    def deleting(self, target: Path) -> Change:
        operand = conditions.given_value(self.value())
        self.require(conditions.require_types([operand], SETS, self.kind, "DELETE"))
        return updates.deleting(target, operand)

    # Key conditions

    def key_parts(self) -> Iterator[KeyPart]:
        yield from self.key_part()
        while self.takes("AND"):
            yield from self.key_part()

    def key_part(self) -> Iterator[KeyPart]:
        if self.takes("("):
            opened = self.position
            yield from self.key_parts()
            self.expect(")")
            self.require_single_parentheses(opened)
        elif self.next == "begins_with" and self.is_call:
            self.position += 2
            name = self.name()
            self.expect(",")
            yield name, "begins_with", (self.value(),)
            self.expect(")")
        elif self.next.startswith(":"):
            value = self.value()
            operator = _MIRRORED[self.key_operator()]
            yield self.name(), operator, (value,)
        else:
            name = self.name()
            if self.takes("BETWEEN"):
                low = self.value()
                self.expect("AND")
                yield name, "between", (low, self.value())
            else:
                operator = self.key_operator()
                yield name, operator, (self.value(),)

    def key_operator(self) -> str:
        operator = self.take()
        if operator not in _MIRRORED:
            self.position -= 1
            self.fail()
        return operator

    def value(self) -> str:
        token = self.take()
        if token[0] != ":":
            self.position -= 1
            self.fail()
        return token


_CLAUSES: Mapping[str, Callable[[Parser, Path], Change]] = {
    "SET": Parser.setting,
    "ADD": Parser.adding,
    "DELETE": Parser.deleting,
}
