"""Attribute values: normalization, order, size."""

import base64
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.dynamolite.errors import SerializationException, ValidationException
from engines.dynamolite.values import (
    MAX_NESTING,
    after_prefix,
    equal,
    nesting_depth,
    normalize,
    normalize_item,
    number,
    size,
    sortable,
    value_size,
)

digits = st.integers(min_value=-(10**38) + 1, max_value=10**38 - 1)
exponents = st.integers(min_value=-130, max_value=88)
numbers = st.builds(lambda whole, exponent: f"{whole}e{exponent}" if whole else "0", digits, exponents).filter(
    lambda text: not Decimal(text) or Decimal(text).adjusted() >= -130
)
texts = st.text(st.characters(codec="utf-8"), max_size=6)


class TestNumbers:
    @pytest.mark.parametrize(
        ("written", "stored"),
        [
            ("0", "0"),
            ("-0", "0"),
            ("0.00", "0"),
            ("0e999", "0"),
            ("007", "7"),
            ("+5", "5"),
            ("1.50", "1.5"),
            ("-1.10", "-1.1"),
            ("1e3", "1000"),
            ("1E+3", "1000"),
            ("1.0e-3", "0.001"),
            (".5", "0.5"),
            ("5.", "5"),
            ("1e125", "1" + "0" * 125),
            ("1e-130", "0." + "0" * 129 + "1"),
            ("1" * 38 + "0", "1" * 38 + "0"),
        ],
    )
    def test_numbers_are_normalized(self, written: str, stored: str) -> None:
        assert number(written) == stored

    @pytest.mark.parametrize(
        "written",
        [
            "",
            " ",
            "x",
            "NaN",
            "Infinity",
            "1_0",
            " 5",
            "5 ",
            "1e",
            "e1",
            "-",
            ".",
            "--1",
            "0x1",
            "1e9999999999999999999",
        ],
    )
    def test_invalid_numbers_are_rejected(self, written: str) -> None:
        with pytest.raises(ValidationException):
            number(written)

    @pytest.mark.parametrize("written", ["1" * 39, "1." + "1" * 38, "1e126", "-1e126", "1e-131", "0.1e-130"])
    def test_numbers_out_of_range_are_rejected(self, written: str) -> None:
        with pytest.raises(ValidationException):
            number(written)

    @given(numbers)
    def test_normalization_is_exact_and_idempotent(self, written: str) -> None:
        stored = number(written)
        assert Decimal(stored) == Decimal(written)
        assert number(stored) == stored
        assert "e" not in stored.lower()

    @given(numbers, numbers)
    def test_their_keys_sort_as_they_do(self, one: str, other: str) -> None:
        keys = sortable("N", number(one)), sortable("N", number(other))
        assert isinstance(keys[0], bytes)
        assert isinstance(keys[1], bytes)
        assert (keys[0] < keys[1]) == (Decimal(one) < Decimal(other))
        assert (keys[0] == keys[1]) == (Decimal(one) == Decimal(other))


class TestKeys:
    @given(texts, texts)
    def test_keys_of_text_sort_as_their_utf_8(self, one: str, other: str) -> None:
        keys = str(sortable("S", one)), str(sortable("S", other))
        assert (keys[0] < keys[1]) == (one.encode() < other.encode())

    @given(st.binary(max_size=6))
    def test_keys_of_bytes_are_the_bytes(self, content: bytes) -> None:
        assert sortable("B", base64.b64encode(content).decode()) == content

    @given(texts, texts)
    def test_keys_of_text_with_a_prefix_are_before_what_follows_it(self, prefix: str, key: str) -> None:
        following = after_prefix(prefix)
        is_within = key >= prefix and (following is None or key < str(following))
        assert is_within == key.startswith(prefix)

    @given(st.binary(max_size=4), st.binary(max_size=4))
    def test_keys_of_bytes_with_a_prefix_are_before_what_follows_it(self, prefix: bytes, key: bytes) -> None:
        following = after_prefix(prefix)
        is_within = key >= prefix and (following is None or key < following)  # type: ignore[operator]
        assert is_within == key.startswith(prefix)

    def test_nothing_follows_the_last_characters_and_bytes(self) -> None:
        assert after_prefix("\U0010ffff\U0010ffff") is None
        assert after_prefix(b"\xff\xff") is None
        assert after_prefix("a\U0010ffff") == "b"
        assert after_prefix(b"a\xff") == b"b"
        assert after_prefix("\ud7ff") == "\ue000"


class TestNormalization:
    @pytest.mark.parametrize(
        "value",
        [
            {"S": ""},
            {"N": "12"},
            {"B": "AQI="},
            {"BOOL": False},
            {"NULL": True},
            {"L": []},
            {"M": {"a": {"L": [{"S": "x"}, {"N": "-1"}]}}},
            {"SS": ["", "a"]},
            {"NS": ["1", "2.5"]},
            {"BS": ["AQ==", ""]},
        ],
    )
    def test_a_normalized_value_is_unchanged(self, value: dict[str, Any]) -> None:
        assert normalize(value) == value

    def test_nested_numbers_are_normalized(self) -> None:
        assert normalize({"L": [{"M": {"a": {"NS": ["1.0", "2e1"]}}}]}) == {"L": [{"M": {"a": {"NS": ["1", "20"]}}}]}

    def test_a_null_counts_as_absent(self) -> None:
        assert normalize({"S": "a", "N": None}) == {"S": "a"}

    def test_equal_bytes_have_equal_base64(self) -> None:
        assert normalize({"B": "AR=="}) == {"B": "AQ=="}

    @pytest.mark.parametrize(
        "value",
        [
            {},
            None,
            {"S": None},
            {"S": "a", "N": "1"},
            {"X": "a"},
            {"NULL": False},
            {"SS": []},
            {"SS": ["a", "a"]},
            {"NS": ["1", "1.0"]},
            {"BS": ["AQ==", "AR=="]},
            {"M": {"": {"S": "a"}}},
            {"L": [{}]},
        ],
    )
    def test_an_invalid_value_is_rejected(self, value: Any) -> None:
        with pytest.raises(ValidationException):
            normalize(value)

    @pytest.mark.parametrize(
        "value",
        [
            "a",
            1,
            [],
            {"S": 1},
            {"N": 1},
            {"N": True},
            {"B": "?"},
            {"B": "AQ"},
            {"B": 1},
            {"BOOL": "true"},
            {"BOOL": 1},
            {"NULL": "true"},
            {"L": {}},
            {"L": ["a"]},
            {"M": []},
            {"M": {"a": "b"}},
            {"SS": "a"},
            {"SS": [1]},
            {"NS": [1]},
            {"SS": [None]},
        ],
    )
    def test_json_of_a_wrong_type_is_a_serialization_error(self, value: Any) -> None:
        with pytest.raises(SerializationException):
            normalize(value)

    def test_values_nest_thirty_two_levels(self) -> None:
        value: dict[str, Any] = {"S": "x"}
        for _ in range(MAX_NESTING - 1):
            value = {"L": [value]}
        assert normalize(value) == value
        assert nesting_depth(value) == MAX_NESTING
        with pytest.raises(ValidationException):
            normalize({"M": {"a": value}})

    def test_an_empty_attribute_name_is_rejected(self) -> None:
        with pytest.raises(ValidationException):
            normalize_item({"": {"S": "a"}})


class TestEquality:
    def test_sets_have_no_order_and_lists_have(self) -> None:
        assert equal({"SS": ["a", "b"]}, {"SS": ["b", "a"]})
        assert not equal({"L": [{"S": "a"}, {"S": "b"}]}, {"L": [{"S": "b"}, {"S": "a"}]})
        assert equal({"M": {"a": {"NS": ["1", "2"]}}}, {"M": {"a": {"NS": ["2", "1"]}}})
        assert not equal({"M": {"a": {"S": "1"}}}, {"M": {"a": {"N": "1"}}})
        assert not equal({"M": {}}, {"L": []})


class TestSizes:
    @pytest.mark.parametrize(
        ("item", "expected"),
        [
            ({"pk": {"S": "é"}}, 4),
            ({"a": {"N": "1"}}, 3),
            ({"a": {"N": "-123"}}, 5),
            ({"a": {"N": "1000"}}, 3),
            ({"a": {"B": "AQI="}}, 3),
            ({"a": {"BOOL": True}}, 2),
            ({"a": {"SS": ["ab", "c"]}}, 4),
            ({"a": {"L": [{"S": "ab"}]}}, 7),
            ({"a": {"M": {"b": {"S": "c"}}}}, 7),
        ],
    )
    def test_sizes_are_counted_as_dynamodb_documents_them(self, item: dict[str, Any], expected: int) -> None:
        assert size(item) == expected

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ({"S": "héllo"}, 5),
            ({"S": "😀"}, 2),
            ({"B": "AQI="}, 2),
            ({"SS": ["a"]}, 1),
            ({"L": [{"S": "a"}, {"S": "b"}]}, 2),
            ({"M": {}}, 0),
            ({"N": "12"}, None),
            ({"BOOL": True}, None),
            ({"NULL": True}, None),
        ],
    )
    def test_in_expressions_count_characters_bytes_and_members(self, value: Any, expected: int | None) -> None:
        assert value_size(value) == expected
