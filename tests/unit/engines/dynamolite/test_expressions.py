"""Conditions, updates, projections: their results and their errors."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.dynamolite import expressions
from engines.dynamolite.errors import ItemValidationError, ValidationException
from engines.dynamolite.placeholders import Placeholders
from tests.unit.engines.dynamolite.engine import content, values

ITEM = {
    "s": "hello",
    "e": "",
    "n": 5,
    "b": {"B": "AQI="},
    "t": True,
    "z": None,
    "l": ["a", 2, {"k": "v"}],
    "m": {"a": "1", "b": {"c": 3}, "l": [1, 2, 3]},
    "ss": {"SS": ["a", "b"]},
    "ns": {"NS": ["1", "2"]},
    "bs": {"BS": ["AQ=="]},
}


def placeholders(names: dict[str, str] | None = None, /, **given: Any) -> Placeholders:
    request: dict[str, Any] = {}
    if names:
        request["ExpressionAttributeNames"] = names
    if given:
        request["ExpressionAttributeValues"] = {f":{name}": value for name, value in values(given).items()}
    return Placeholders.of(request)


def holds(text: str, names: dict[str, str] | None = None, /, **given: Any) -> bool:
    bound, condition = placeholders(names, **given), expressions.condition(text)
    bound.validate(condition)
    return condition.holds(values(ITEM), bound)


def updated(text: str, names: dict[str, str] | None = None, /, **given: Any) -> dict[str, Any]:
    """The attributes that an update leaves different from `ITEM`; an absent one is `...`."""
    bound, update, before = placeholders(names, **given), expressions.update(text), values(ITEM)
    bound.validate(update)
    after = update.apply(before, bound)
    assert before == values(ITEM), "an update leaves the item before it as it was"
    found = {name: content(value) for name, value in after.items()}
    changed = {name: value for name, value in found.items() if name not in ITEM or value != content(before[name])}
    return changed | {name: ... for name in ITEM if name not in found}


class TestComparisons:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("s = :v", "hello"),
            ("n = :v", 5),
            ("n <> :v", 6),
            ("n < :v", 6),
            ("n <= :v", 5),
            ("n > :v", -1),
            ("n >= :v", 5),
            ("s < :v", "world"),
            ("b > :v", {"B": "AQE="}),
            ("ss = :v", {"SS": ["b", "a"]}),
            ("m.b = :v", {"c": 3}),
            ("l[2] = :v", {"k": "v"}),
            ("m.l[1] = :v", 2),
            ("l[2].k = :v", "v"),
            ("n BETWEEN :v AND :v", 5),
            (":v BETWEEN n AND m.b.c OR n = :v", 5),
            ("n IN (s, :v)", 5),
            ("size(s) = :v", 5),
            ("size(m.l) = :v", 3),
            ("size(ss) > :v", 1),
            ("size(b) <= :v", 2),
            ("size(e) = :v", 0),
        ],
    )
    def test_a_true_comparison_holds(self, text: str, value: Any) -> None:
        assert holds(text, v=value)

    @pytest.mark.parametrize("operator", ["=", "<", "<=", ">", ">="])
    @pytest.mark.parametrize("path", ["gone", "m.gone", "l[9]", "s.a", "s[0]", "m[0]", "l.a", "size(gone)", "size(n)"])
    def test_comparisons_with_a_missing_attribute_do_not_hold(self, path: str, operator: str) -> None:
        assert not holds(f"{path} {operator} :v", v=5)
        assert holds(f"{path} <> :v", v=5)
        assert not holds(f"{path} BETWEEN :v AND :v", v=5)
        assert not holds(f"{path} IN (:v)", v=5)

    @pytest.mark.parametrize("operator", ["=", "<", "<=", ">", ">="])
    @pytest.mark.parametrize(
        ("path", "value"), [("n", "5"), ("s", 5), ("b", "AQI="), ("t", "x"), ("m", 1), ("ss", "a")]
    )
    def test_across_types_do_not_hold(self, path: str, operator: str, value: Any) -> None:
        assert not holds(f"{path} {operator} :v", v=value)
        assert holds(f"{path} <> :v", v=value)

    def test_numbers_compare_as_numbers(self) -> None:
        assert holds("n = :v", v={"N": "5.0"})
        assert holds("n < :v", v=10)

    @pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
    @pytest.mark.parametrize("value", [True, None, [], {"a": 1}, {"SS": ["a"]}, {"NS": ["1"]}, {"BS": ["AQ=="]}])
    def test_a_given_value_without_an_order_is_rejected(self, operator: str, value: Any) -> None:
        with pytest.raises(ValidationException, match="Incorrect operand type"):
            holds(f"gone {operator} :v", v=value)

    def test_a_stored_value_without_an_order_only_compares_as_false(self) -> None:
        assert not holds("l < m")

    @pytest.mark.parametrize(("low", "high"), [(2, 1), ("b", "a"), (1, "1"), (True, True)])
    def test_bounds_in_the_wrong_order_are_rejected(self, low: Any, high: Any) -> None:
        with pytest.raises(ValidationException):
            holds("n BETWEEN :low AND :high", low=low, high=high)

    @pytest.mark.parametrize(
        "text", ["n = n", "n < n", "n IN (s, n)", "n BETWEEN s AND n", "m.b = m.b", "contains(s, s)"]
    )
    def test_an_attribute_is_not_compared_with_itself(self, text: str) -> None:
        with pytest.raises(ValidationException, match="must be distinct"):
            holds(text)

    def test_a_name_by_its_placeholder_is_the_same_attribute(self) -> None:
        assert holds("#n = :v", {"#n": "n"}, v=5)
        with pytest.raises(ValidationException, match="must be distinct"):
            holds("#n = n", {"#n": "n"})


class TestFunctions:
    @pytest.mark.parametrize(
        ("path", "is_there"),
        [("s", True), ("m.b.c", True), ("l[2].k", True), ("z", True), ("gone", False), ("l[3]", False)],
    )
    def test_existence(self, path: str, is_there: bool) -> None:
        assert holds(f"attribute_exists({path})") is is_there
        assert holds(f"attribute_not_exists({path})") is not is_there

    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("s", "S"),
            ("n", "N"),
            ("b", "B"),
            ("t", "BOOL"),
            ("z", "NULL"),
            ("l", "L"),
            ("m", "M"),
            ("ss", "SS"),
            ("ns", "NS"),
            ("bs", "BS"),
        ],
    )
    def test_types(self, path: str, kind: str) -> None:
        assert holds(f"attribute_type({path}, :v)", v=kind)
        assert not holds("attribute_type(gone, :v)", v=kind)
        assert not holds(f"attribute_type({path}, :v)", v="S" if kind != "S" else "N")

    @pytest.mark.parametrize("name", ["X", "", 5])
    def test_an_unknown_type_is_rejected(self, name: Any) -> None:
        with pytest.raises(ValidationException):
            holds("attribute_type(s, :v)", v=name)

    @pytest.mark.parametrize(
        ("text", "value", "expected"),
        [
            ("begins_with(s, :v)", "he", True),
            ("begins_with(s, :v)", "", True),
            ("begins_with(s, :v)", "e", False),
            ("begins_with(b, :v)", {"B": "AQ=="}, True),
            ("begins_with(s, :v)", {"B": "AQ=="}, False),
            ("begins_with(n, :v)", "5", False),
            ("begins_with(gone, :v)", "x", False),
            ("begins_with(:v, m.a)", "12", True),
            ("contains(s, :v)", "ell", True),
            ("contains(s, :v)", 5, False),
            ("contains(b, :v)", {"B": "Ag=="}, True),
            ("contains(l, :v)", 2, True),
            ("contains(l, :v)", {"k": "v"}, True),
            ("contains(l, :v)", "2", False),
            ("contains(ss, :v)", "a", True),
            ("contains(ss, :v)", {"SS": ["a"]}, False),
            ("contains(ns, :v)", {"N": "1.0"}, True),
            ("contains(ns, :v)", "1", False),
            ("contains(m, :v)", "a", False),
            ("contains(gone, :v)", "a", False),
            ("contains(:v, m.a)", "213", True),
        ],
    )
    def test_parts(self, text: str, value: Any, expected: bool) -> None:
        assert holds(text, v=value) is expected

    def test_a_prefix_that_the_item_has_may_be_of_any_type(self) -> None:
        assert not holds("begins_with(s, n)")

    @pytest.mark.parametrize("value", [5, True, None, [], {"SS": ["a"]}])
    def test_a_given_prefix_is_text_or_binary(self, value: Any) -> None:
        with pytest.raises(ValidationException, match="Incorrect operand type"):
            holds("begins_with(gone, :v)", v=value)

    def test_a_given_value_may_have_no_size(self) -> None:
        assert holds("size(:v) = :three", v="abc", three=3)
        with pytest.raises(ValidationException, match="Incorrect operand type"):
            holds("size(:v) = :v", v=3)


class TestLogic:
    @pytest.mark.parametrize(
        "text",
        [
            "s = :s AND n = :n",
            "s = :n OR n = :n AND s = :s",
            "NOT (s = :n OR s = n) AND n = :n AND s = :s",
            "not s = :n and n = :n and s = :s",
            "(s = :s) AND (n = :n)",
            "NOT NOT (s = :s AND n = :n)",
        ],
    )
    def test_a_true_condition_holds(self, text: str) -> None:
        assert holds(text, s="hello", n=5)

    def test_and_binds_closer_than_or(self) -> None:
        assert holds("n = :n OR n = :s AND s = :n", s="hello", n=5)
        assert not holds("(n = :n OR n = :s) AND s = :n", s="hello", n=5)

    @given(st.data())
    def test_any_condition_holds_as_python_says(self, data: st.DataObject) -> None:
        text, expected = data.draw(conditions())
        bound = placeholders({"#n": "n"}, one=1, five=5, six=6, nine=9)
        condition = expressions.condition(text)
        assert condition.holds(values(ITEM), bound) is expected(5)


@st.composite
def conditions(draw: st.DrawFn, depth: int = 3) -> tuple[str, Callable[[int], bool]]:
    """A text about the attribute `n`, and the same in Python."""
    kind = draw(
        st.sampled_from(["compare", "between", "in", "exists", "and", "or", "not"] if depth else ["compare", "in"])
    )
    named = {":one": 1, ":five": 5, ":six": 6, ":nine": 9}
    name, other = draw(st.sampled_from(["n", "#n"])), draw(st.sampled_from(list(named)))
    if kind == "compare":
        operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
        python = {"=": "__eq__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}[operator]
        return f"{name} {operator} {other}", lambda n: bool(getattr(n, python)(named[other]))
    if kind == "between":
        return f"{name} BETWEEN :one AND {other}", lambda n: 1 <= n <= named[other]
    if kind == "in":
        return f"{name} IN ({other}, :six)", lambda n: n in (named[other], 6)
    if kind == "exists":
        path, is_there = draw(st.sampled_from([(name, True), ("gone", False), ("m.b.c", True), ("m.x", False)]))
        return f"attribute_exists({path})", lambda n: is_there
    left, left_holds = draw(conditions(depth=depth - 1))
    if kind == "not":
        return f"NOT ({left})" if not left.startswith("(") else f"NOT {left}", lambda n: not left_holds(n)
    right, right_holds = draw(conditions(depth=depth - 1))
    if kind == "and":
        return f"({left} AND {right})", lambda n: left_holds(n) and right_holds(n)
    return f"({left} OR {right})", lambda n: left_holds(n) or right_holds(n)


class TestSyntax:
    @pytest.mark.parametrize(
        "text",
        [
            "",
            " ",
            "a",
            "a =",
            "= :v",
            "a = :v AND",
            "a = :v b",
            "a == :v",
            "a != :v",
            "a = :v;",
            "(a = :v",
            "a = :v)",
            "a IN :v",
            "a IN ()",
            "a BETWEEN :v",
            "a BETWEEN :v OR :v",
            "size(a)",
            "size(size(a)) = :v",
            "foo(a)",
            "ATTRIBUTE_EXISTS(a)",
            "attribute_exists(:v)",
            "attribute_exists(a, :v)",
            "contains(a)",
            "a[b] = :v",
            "a[-1] = :v",
            "a[00] = :v",
            "a[2147483648] = :v",
            "a. = :v",
            "a..b = :v",
            "_a = :v",
            "1a = :v",
            "aé = :v",
            "a-b = :v",
            "a = 1",
            "status = :v",
            "Size = :v",
            "a.name = :v",
            "((a = :v))",
            "NOT ((a = :v))",
            "a = :v AND ((b = :v) )",
            "a = :v AND " * 150 + "a = :v",
            "NOT " * 301 + "a = :v",
            "a IN (" + ", ".join([":v"] * 101) + ")",
            ".".join(["a"] * 33) + " = :v",
            "a" * 4097 + " = :v",
        ],
    )
    def test_invalid_syntax_of_conditions_is_rejected(self, text: str) -> None:
        with pytest.raises(ValidationException):
            expressions.condition(text)

    @pytest.mark.parametrize(
        "text",
        [
            "a[0].b=:v",
            "a [0] . b = :v",
            "((a = :v) AND (b = :v))",
            "(NOT (a = :v))",
            ".".join(["a"] * 32) + " = :v",
            "NOT " * 299 + "a = :v",
        ],
    )
    def test_unusual_syntax_is_accepted(self, text: str) -> None:
        assert ":v" in expressions.condition(text).placeholders

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "SET",
            "SET a",
            "SET a =",
            "FOO a",
            "SET a = :v,",
            "SET a = :v SET b = :v",
            "SET a = :v + :v + :v",
            "SET a = ((:v))",
            "SET a = size(b)",
            "SET a = b(c)",
            "SET a = if_not_exists(:v, :v)",
            "SET a = if_not_exists(b, :v + :v)",
            "ADD a b",
            "DELETE a b",
            "ADD a",
            "REMOVE",
            "SET status = :v",
            "SET a = 1",
            "SET a = IF_NOT_EXISTS(b, :v)",
        ],
    )
    def test_invalid_syntax_of_updates_is_rejected(self, text: str) -> None:
        with pytest.raises(ValidationException):
            expressions.update(text)

    @pytest.mark.parametrize("text", ["", "a,", ",a", "a b", "1", "size(a)", "name", "a.b[", "#"])
    def test_invalid_syntax_of_projections_is_rejected(self, text: str) -> None:
        with pytest.raises(ValidationException):
            expressions.projection(text)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "pk",
            "pk <> :p",
            "pk = pk",
            "pk.a = :p",
            "pk = :p OR sk = :p",
            "NOT pk = :p",
            "pk IN (:p)",
            "size(pk) = :p",
            "((pk = :p))",
            "attribute_exists(pk)",
            "pk = :p AND",
        ],
    )
    def test_invalid_syntax_of_key_conditions_is_rejected(self, text: str) -> None:
        with pytest.raises(ValidationException):
            expressions.key_condition(text)

    @pytest.mark.parametrize(
        "text", ["pk = :p AND sk < :s", ":p = pk AND :s > sk", "(pk = :p) AND (sk < :s)", "(pk = :p and sk < :s)"]
    )
    def test_key_conditions_have_equivalent_forms(self, text: str) -> None:
        parts = expressions.key_condition(text).resolve(placeholders(p="a", s=1))
        assert parts == [("pk", "=", [{"S": "a"}]), ("sk", "<", [{"N": "1"}])]


class TestPlaceholders:
    @pytest.mark.parametrize(
        "request_",
        [
            {"ExpressionAttributeNames": {}},
            {"ExpressionAttributeValues": {}},
            {"ExpressionAttributeNames": {"#a": ""}},
            {"ExpressionAttributeNames": {"#a": None}},
            {"ExpressionAttributeValues": {":a": {}}},
            {"ExpressionAttributeValues": {":a": None}},
        ],
    )
    def test_placeholders_without_a_valid_value_are_rejected(self, request_: dict[str, Any]) -> None:
        with pytest.raises(ValidationException):
            Placeholders.of(request_)

    def test_unused_placeholders_are_rejected(self) -> None:
        with pytest.raises(ValidationException, match=r"unused in expressions: keys: \{#x\}"):
            holds("n = :v", {"#x": "y"}, v=1)
        with pytest.raises(ValidationException, match=r"unused in expressions: keys: \{:w\}"):
            holds("n = :v", v=1, w=1)

    def test_undefined_placeholders_are_rejected(self) -> None:
        with pytest.raises(ValidationException, match="not defined; attribute: :w"):
            holds("n = :v AND n = :w", v=1)
        with pytest.raises(ValidationException, match="not defined; attribute: #x"):
            holds("#x = :v", v=1)

    def test_placeholders_are_shared_by_the_expressions_of_a_request(self) -> None:
        bound = placeholders({"#a": "n"}, v=1)
        bound.validate(expressions.condition("#a = :v"), expressions.update("SET #a = :v"), None)


class TestUpdates:
    @pytest.mark.parametrize(
        ("text", "bound", "expected"),
        [
            ("SET a = :v", {"v": 1}, {"a": 1}),
            ("SET n = :v, s = :v", {"v": 1}, {"n": 1, "s": 1}),
            ("set a = :v remove n", {"v": 1}, {"a": 1, "n": ...}),
            ("SET a = n, n = m.b.c", {}, {"a": 5, "n": 3}),
            ("SET n = n + :v", {"v": 2}, {"n": 7}),
            ("SET n = :v - n", {"v": 2}, {"n": -3}),
            ("SET n = n - n", {}, {"n": 0}),
            ("SET a = (n + :v)", {"v": 2}, {"a": 7}),
            ("SET a = (:v)", {"v": 2}, {"a": 2}),
            ("SET a = if_not_exists(n, :v)", {"v": 1}, {"a": 5}),
            ("SET a = if_not_exists(gone, :v)", {"v": 1}, {"a": 1}),
            ("SET a = if_not_exists(gone, n) + :v", {"v": 1}, {"a": 6}),
            ("SET a = list_append(m.l, :v)", {"v": [4]}, {"a": [1, 2, 3, 4]}),
            ("SET a = list_append(:v, m.l)", {"v": [0]}, {"a": [0, 1, 2, 3]}),
            ("SET a = list_append(if_not_exists(gone, :v), :v)", {"v": [0]}, {"a": [0, 0]}),
            ("SET m.b.c = m.b.c + :v", {"v": 1}, {"m": {"a": "1", "b": {"c": 4}, "l": [1, 2, 3]}}),
            ("SET m.more = :v", {"v": 1}, {"m": {"a": "1", "b": {"c": 3}, "l": [1, 2, 3], "more": 1}}),
            ("SET l[1] = :v", {"v": 1}, {"l": ["a", 1, {"k": "v"}]}),
            ("SET l[9] = :a, l[7] = :b", {"a": "9", "b": "7"}, {"l": ["a", 2, {"k": "v"}, "7", "9"]}),
            ("REMOVE s, gone, m.gone, l[9]", {}, {"s": ...}),
            ("REMOVE l[0], l[1]", {}, {"l": [{"k": "v"}]}),
            ("REMOVE l[1], l[0]", {}, {"l": [{"k": "v"}]}),
            ("REMOVE l[0], l[2].k", {}, {"l": [2, {}]}),
            ("REMOVE l[0] SET l[1] = :v", {"v": "x"}, {"l": ["x", {"k": "v"}]}),
            ("SET l[9] = :v REMOVE l[0]", {"v": "x"}, {"l": [2, {"k": "v"}, "x"]}),
            ("ADD n :v", {"v": 2}, {"n": 7}),
            ("ADD a :v", {"v": 2}, {"a": 2}),
            ("ADD m.b.c :v", {"v": 2}, {"m": {"a": "1", "b": {"c": 5}, "l": [1, 2, 3]}}),
            ("ADD ss :v", {"v": {"SS": ["b", "c"]}}, {"ss": {"SS": ["a", "b", "c"]}}),
            ("ADD a :v", {"v": {"NS": ["1"]}}, {"a": {"NS": ["1"]}}),
            ("DELETE ss :v", {"v": {"SS": ["a", "x"]}}, {"ss": {"SS": ["b"]}}),
            ("DELETE ss :v", {"v": {"SS": ["a", "b"]}}, {"ss": ...}),
            ("DELETE gone :v", {"v": {"SS": ["a"]}}, {}),
            ("DELETE ns :v", {"v": {"NS": ["2.0"]}}, {"ns": {"NS": ["1"]}}),
            (
                "SET a = :v ADD n :v DELETE ss :s REMOVE t",
                {"v": 1, "s": {"SS": ["a"]}},
                {"a": 1, "n": 6, "ss": {"SS": ["b"]}, "t": ...},
            ),
        ],
    )
    def test_valid_updates_change_the_item(self, text: str, bound: dict[str, Any], expected: dict[str, Any]) -> None:
        assert updated(text, **bound) == expected

    def test_positions_of_one_list_may_be_named_by_different_placeholders(self) -> None:
        assert updated("REMOVE l[0], #l[1]", {"#l": "l"}) == {"l": [{"k": "v"}]}

    @pytest.mark.parametrize(
        ("text", "bound"),
        [
            ("SET a = gone", {}),
            ("SET a = n + gone", {}),
            ("SET a = s + n", {}),
            ("SET a = list_append(gone, l)", {}),
            ("SET a = list_append(s, l)", {}),
            ("SET gone.a = :v", {"v": 1}),
            ("SET gone[0] = :v", {"v": 1}),
            ("SET s.a = :v", {"v": 1}),
            ("SET m[0] = :v", {"v": 1}),
            ("SET l.a = :v", {"v": 1}),
            ("REMOVE gone.a", {}),
            ("REMOVE m.gone.a", {}),
            ("ADD s :v", {"v": 1}),
            ("ADD n :v", {"v": {"SS": ["a"]}}),
            ("ADD ss :v", {"v": {"NS": ["1"]}}),
            ("DELETE s :v", {"v": {"SS": ["a"]}}),
            ("DELETE ns :v", {"v": {"SS": ["1"]}}),
            ("ADD gone.a :v", {"v": 1}),
            ("SET n = n + :v", {"v": {"N": "1e40"}}),
            ("ADD n :v", {"v": {"N": "1e40"}}),
            ("SET n = :v + :v", {"v": {"N": "9e125"}}),
        ],
    )
    def test_updates_that_the_item_does_not_allow_are_item_validation_errors(
        self, text: str, bound: dict[str, Any]
    ) -> None:
        with pytest.raises(ItemValidationError):
            updated(text, **bound)

    @pytest.mark.parametrize(
        ("text", "bound"),
        [
            ("SET a = :v, a = :v", {"v": 1}),
            ("SET m.a = :v, m = :v", {"v": 1}),
            ("SET m.a = :v REMOVE m", {"v": 1}),
            ("SET l[0] = :v REMOVE l[0]", {"v": 1}),
            ("REMOVE l[1], l[1]", {}),
            ("ADD s :v", {"v": "a"}),
            ("DELETE ss :v", {"v": "a"}),
            ("SET a = :v + n", {"v": "a"}),
            ("SET a = list_append(l, :v)", {"v": 1}),
        ],
    )
    def test_updates_that_no_item_allows_are_rejected_before_an_item_is_read(
        self, text: str, bound: dict[str, Any]
    ) -> None:
        with pytest.raises(ValidationException) as failed:
            updated(text, **bound)
        assert not isinstance(failed.value, ItemValidationError)

    def test_updates_that_overlap_by_their_placeholders_are_rejected(self) -> None:
        with pytest.raises(ValidationException, match="overlap"):
            updated("SET #a = :v, a = :v", {"#a": "a"}, v=1)

    def test_updates_of_nested_values_respect_the_nesting_limit(self) -> None:
        deep: Any = "x"
        for _ in range(30):
            deep = [deep]
        assert updated("SET m.a = :v", v=deep)["m"]["a"] == deep
        with pytest.raises(ItemValidationError, match="Nesting"):
            updated("SET m.b.c = :v", v=deep)


class TestProjections:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("s, n, gone", {"s": "hello", "n": 5}),
            ("m.b.c", {"m": {"b": {"c": 3}}}),
            ("m.a, m.b", {"m": {"a": "1", "b": {"c": 3}}}),
            ("m.l[2], m.l[0]", {"m": {"l": [1, 3]}}),
            ("l[2].k", {"l": [{"k": "v"}]}),
            ("l[9], m.gone, s.a", {}),
        ],
    )
    def test_keep_the_structure_of_the_item(self, text: str, expected: dict[str, Any]) -> None:
        shown = expressions.projection(text).apply(values(ITEM), placeholders())
        assert {name: content(value) for name, value in shown.items()} == expected

    @pytest.mark.parametrize("text", ["a, a", "m, m.a", "l[0], l[0].a", "#a, a"])
    def test_do_not_overlap(self, text: str) -> None:
        projection = expressions.projection(text)
        bound = placeholders({"#a": "a"} if "#" in text else None)
        with pytest.raises(ValidationException, match="overlap"):
            bound.validate(projection)
