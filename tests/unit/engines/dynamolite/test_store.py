"""Tables, indexes, queries, pages, expiry."""

import sqlite3
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.dynamolite.reading import MAX_PAGE_BYTES
from engines.dynamolite.store import MAX_EXPIRED_SECONDS, Range, Store
from tests.unit.engines.dynamolite.engine import (
    PLAIN,
    TABLE,
    Engine,
    RequestFailed,
    content,
    index,
    plain,
    schema,
    things,
    values,
)


def page(engine: Engine, condition: str, /, table: str = TABLE, **options: Any) -> dict[str, Any]:
    given = options.pop("given", {})
    brought = {f":{name}": value for name, value in values(given).items()}
    return engine.call(
        "Query", TableName=table, KeyConditionExpression=condition, ExpressionAttributeValues=brought, **options
    )


def found(response: dict[str, Any], name: str = "sk") -> list[Any]:
    return [content(item[name]) for item in response["Items"]]


def walk(engine: Engine, condition: str, /, **options: Any) -> list[list[Any]]:
    """The sort keys of page after page, until there is none."""
    pages: list[list[Any]] = []
    more: dict[str, Any] = {}
    while True:
        response = page(engine, condition, **options, **more)
        pages.append(found(response))
        if "LastEvaluatedKey" not in response:
            return pages
        more = {"ExclusiveStartKey": response["LastEvaluatedKey"]}


class TestKeyConditions:
    @pytest.fixture(autouse=True)
    def _rows(self, engine: Engine) -> None:
        for number in (-3, 0, 1, 2, 10):
            engine.put(TABLE, pk="p", sk=number, gp="g", gs=f"s{number}")
        engine.put(TABLE, pk="other", sk=1)

    @pytest.mark.parametrize(
        ("condition", "expected"),
        [
            ("pk = :p", [-3, 0, 1, 2, 10]),
            ("pk = :p AND sk = :one", [1]),
            ("pk = :p AND sk < :one", [-3, 0]),
            ("pk = :p AND sk <= :one", [-3, 0, 1]),
            ("pk = :p AND sk > :one", [2, 10]),
            ("pk = :p AND :one <= sk", [1, 2, 10]),
            ("pk = :p AND sk BETWEEN :one AND :two", [1, 2]),
        ],
    )
    def test_find_the_rows(self, engine: Engine, condition: str, expected: list[int]) -> None:
        given = {name: plain for name, plain in (("p", "p"), ("one", 1), ("two", 2)) if f":{name}" in condition}
        assert found(page(engine, condition, given=given)) == expected
        assert found(page(engine, condition, given=given, ScanIndexForward=False)) == expected[::-1]

    @pytest.mark.parametrize(
        ("condition", "given"),
        [
            ("sk = :a", {"a": 1}),
            ("pk > :a", {"a": "p"}),
            ("pk = :a AND pk = :a", {"a": "p"}),
            ("pk = :a AND sk = :b AND sk = :b", {"a": "p", "b": 1}),
            ("pk = :a AND gp = :a", {"a": "p"}),
            ("pk = :a", {"a": 1}),
            ("pk = :a", {"a": ""}),
            ("pk = :a AND sk = :b", {"a": "p", "b": "1"}),
            ("pk = :a AND begins_with(sk, :b)", {"a": "p", "b": 1}),
            ("pk = :a AND sk BETWEEN :b AND :c", {"a": "p", "b": 2, "c": 1}),
        ],
    )
    def test_key_conditions_that_name_no_range_of_a_partition_are_rejected(
        self, engine: Engine, condition: str, given: dict[str, Any]
    ) -> None:
        with pytest.raises(RequestFailed, match="ValidationException"):
            page(engine, condition, given=given)

    @pytest.mark.parametrize("limit", [1, 2, 4, 5, 6])
    @pytest.mark.parametrize("forward", [True, False])
    def test_pages_together_are_the_whole(self, engine: Engine, limit: int, forward: bool) -> None:
        pages = walk(engine, "pk = :p", given={"p": "p"}, Limit=limit, ScanIndexForward=forward)
        assert list(chain(*pages)) == [-3, 0, 1, 2, 10][:: 1 if forward else -1]
        assert all(len(rows) == limit for rows in pages[:-1])
        indexed = walk(
            engine, "gp = :g", given={"g": "g"}, Limit=limit, ScanIndexForward=forward, IndexName="everything"
        )
        assert sorted(chain(*indexed)) == [-3, 0, 1, 2, 10]
        assert [len(rows) for rows in indexed] == [len(rows) for rows in pages]

    def test_a_page_that_ends_with_the_last_row_has_a_last_evaluated_key(self, engine: Engine) -> None:
        assert "LastEvaluatedKey" in page(engine, "pk = :p", given={"p": "p"}, Limit=5)
        assert "LastEvaluatedKey" not in page(engine, "pk = :p", given={"p": "p"}, Limit=6)

    def test_rows_with_one_key_in_an_index_are_each_found_once(self, engine: Engine) -> None:
        for number in range(5):
            engine.put(TABLE, pk="same", sk=number, gp="same", gs="same")
        pages = walk(engine, "gp = :g AND gs = :g", given={"g": "same"}, Limit=2, IndexName="everything")
        assert sorted(chain(*pages)) == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize(
        "start",
        [
            {},
            {"pk": "p"},
            {"pk": "p", "sk": 1, "more": 1},
            {"pk": "p", "sk": "1"},
            {"pk": "other", "sk": 1},
            {"pk": "p", "sk": -3},
        ],
    )
    def test_a_start_key_outside_of_the_query_is_rejected(self, engine: Engine, start: dict[str, Any]) -> None:
        with pytest.raises(RequestFailed, match=r"starting key|Type mismatch"):
            page(engine, "pk = :p AND sk >= :n", given={"p": "p", "n": 0}, ExclusiveStartKey=values(start))

    def test_filtered_items_are_counted_as_scanned(self, engine: Engine) -> None:
        response = page(engine, "pk = :p", given={"p": "p", "gs": "s1"}, FilterExpression="gs = :gs", Limit=3)
        assert (found(response), response["Count"], response["ScannedCount"]) == ([1], 1, 3)
        assert "LastEvaluatedKey" in response

    def test_a_filter_on_a_key_is_rejected(self, engine: Engine) -> None:
        with pytest.raises(RequestFailed, match="non-primary key"):
            page(engine, "pk = :p", given={"p": "p", "n": 1}, FilterExpression="sk = :n")

    def test_select_count_returns_only_counts(self, engine: Engine) -> None:
        assert page(engine, "pk = :p", given={"p": "p"}, Select="COUNT") == {"Count": 5, "ScannedCount": 5}

    @pytest.mark.parametrize(
        "options",
        [
            {"Limit": 0},
            {"Limit": "1"},
            {"Limit": True},
            {"ScanIndexForward": "x"},
            {"ConsistentRead": 1},
            {"IndexName": "none"},
            {"IndexName": 5},
            {"Select": "BAD"},
            {"Select": "SPECIFIC_ATTRIBUTES"},
            {"Select": "ALL_PROJECTED_ATTRIBUTES"},
            {"Select": "COUNT", "ProjectionExpression": "gs"},
            {"AttributesToGet": ["a"]},
            {"QueryFilter": {}},
        ],
    )
    def test_invalid_options_are_rejected(self, engine: Engine, options: dict[str, Any]) -> None:
        with pytest.raises(RequestFailed) as failed:
            page(engine, "pk = :p", given={"p": "p"}, **options)
        assert failed.value.status == 400


class TestPrefixes:
    @pytest.mark.parametrize("prefix", ["a", "a\U0010ffff", "\U0010ffff", "\ud7ff", "a\x00", "é"])
    def test_prefixes_of_text_find_what_begins_with_them(self, engine: Engine, prefix: str) -> None:
        keys = [
            "a",
            "a\x00",
            "a\x00b",
            "a\U0010ffff",
            "a\U0010ffffz",
            "b",
            "é",
            "é1",
            "\ud7ff",
            "\ud7ff1",
            "\ue000",
            "\U0010ffff",
        ]
        for number, key in enumerate(keys):
            engine.put(TABLE, pk="p", sk=number, gp="g", gs=key)
        given = {"g": "g", "s": prefix}
        response = page(engine, "gp = :g AND begins_with(gs, :s)", given=given, IndexName="everything")
        assert found(response, "gs") == sorted(key for key in keys if key.startswith(prefix))

    @pytest.mark.parametrize("prefix", ["/w==", "Af8=", "AQ=="])
    def test_prefixes_of_bytes_find_what_begins_with_them(self, engine: Engine, prefix: str) -> None:
        keys = {"/w==": 1, "//8=": 2, "Af8=": 3, "Af//": 4, "AQ==": 5, "Ag==": 6}
        for key, number in keys.items():
            engine.put(TABLE, pk="p", sk=number, ls={"B": key})
        given = {"p": "p", "s": {"B": prefix}}
        response = page(engine, "pk = :p AND begins_with(ls, :s)", given=given, IndexName="local")
        assert sorted(found(response)) == {"/w==": [1, 2], "Af8=": [3, 4], "AQ==": [3, 4, 5]}[prefix]


class TestRanges:
    @given(
        st.lists(st.integers(0, 9), unique=True),
        st.integers(0, 9),
        st.sampled_from(["least", "above", "most", "below"]),
    )
    def test_contain_what_sqlite_finds(self, keys: list[int], bound: int, kind: str) -> None:
        within = Range(**{kind: str(bound)})
        ((operator, _),) = within.limits()
        database = sqlite3.connect(":memory:")
        rows = database.execute(
            f"SELECT value FROM (SELECT CAST(value AS TEXT) AS value FROM json_each(?)) WHERE value {operator} ?",
            [str(keys), str(bound)],
        )
        assert sorted(row[0] for row in rows) == sorted(str(key) for key in keys if within.contains(str(key)))
        database.close()


class TestIndexes:
    def test_an_item_is_in_an_index_while_it_has_its_keys(self, engine: Engine) -> None:
        def members() -> list[Any]:
            return found(page(engine, "gp = :g", given={"g": "g"}, IndexName="everything"))

        key = values({"pk": "p", "sk": 1})
        engine.put(TABLE, pk="p", sk=1, gp="g")
        assert members() == []
        change = {"TableName": TABLE, "Key": key}
        engine.call(
            "UpdateItem", **change, UpdateExpression="SET gs = :s", ExpressionAttributeValues=values({":s": "s"})
        )
        assert members() == [1]
        engine.call("UpdateItem", **change, UpdateExpression="REMOVE gp")
        assert members() == []
        engine.put(TABLE, pk="p", sk=1, gp="g", gs="s")
        assert members() == [1]
        engine.call("DeleteItem", **change)
        assert members() == []

    def test_an_index_returns_its_projection(self, engine: Engine) -> None:
        engine.put(TABLE, pk="p", sk=1, gp="g", gs="s", ls={"B": "AQ=="}, a=1, b=2)

        def names(index: str, condition: str, **options: Any) -> set[str]:
            given = {"v": condition[-1]}
            response = page(engine, condition[:-1] + ":v", given=given, IndexName=index, **options)
            return set(response["Items"][0])

        everything = {"pk", "sk", "gp", "gs", "ls", "a", "b"}
        assert names("everything", "gp = g") == everything
        assert names("keys", "gp = g") == {"pk", "sk", "gp"}
        assert names("some", "gs = s") == {"pk", "sk", "gs", "a"}
        assert names("local", "pk = p") == {"pk", "sk", "ls"}
        assert names("local", "pk = p", Select="ALL_ATTRIBUTES") == everything
        assert names("local", "pk = p", ProjectionExpression="b, ls") == {"b", "ls"}
        assert names("some", "gs = s", ProjectionExpression="a") == {"a"}

    @pytest.mark.parametrize(
        "options",
        [
            {"ProjectionExpression": "b"},
            {"Select": "ALL_ATTRIBUTES"},
            {"FilterExpression": "attribute_exists(b)"},
            {"FilterExpression": "attribute_exists(gs)"},
            {"ConsistentRead": True},
        ],
    )
    def test_attributes_that_a_global_index_does_not_have_are_rejected(
        self, engine: Engine, options: dict[str, Any]
    ) -> None:
        with pytest.raises(RequestFailed, match="ValidationException"):
            page(engine, "gs = :g", given={"g": "g"}, IndexName="some", **options)

    @pytest.mark.parametrize(
        "keys", [{"gp": 1}, {"gs": None}, {"gp": ""}, {"gs": "x" * 2049}, {"gp": "g", "gs": "x" * 1025}, {"ls": "a"}]
    )
    def test_an_invalid_index_key_is_rejected_and_changes_nothing(self, engine: Engine, keys: Any) -> None:
        with pytest.raises(RequestFailed, match="ValidationException"):
            engine.put(TABLE, pk="p", sk=1, **keys)
        assert engine.all(TABLE) == []

    def test_a_scan_of_an_index_returns_its_items(self, engine: Engine) -> None:
        engine.put(TABLE, pk="p", sk=1, gp="g")
        engine.put(TABLE, pk="p", sk=2)
        response = engine.call("Scan", TableName=TABLE, IndexName="keys", Limit=1)
        assert found(response) == [1]
        again = engine.call("Scan", TableName=TABLE, IndexName="keys", ExclusiveStartKey=response["LastEvaluatedKey"])
        assert again == {"Items": [], "Count": 0, "ScannedCount": 0}


class TestPageSizes:
    def test_a_page_ends_after_a_megabyte(self, engine: Engine) -> None:
        for number in range(5):
            engine.put(TABLE, pk="p", sk=number, text="x" * 300_000)
        assert [len(rows) for rows in walk(engine, "pk = :p", given={"p": "p"})] == [4, 1]

    def test_a_page_is_measured_in_dynamodbs_sizes_not_in_json(self, engine: Engine) -> None:
        """A list of short members is several times longer in JSON than DynamoDB counts it."""
        for number in range(4):
            engine.put(TABLE, pk="p", sk=number, many=["x"] * 40_000)
        assert 40_000 * len('{"S":"x"},') * 4 > MAX_PAGE_BYTES
        assert [len(rows) for rows in walk(engine, "pk = :p", given={"p": "p"})] == [4]


class TestTables:
    def test_survive_with_their_items_when_the_file_is_opened_again(self, tmp_path: Path) -> None:
        first = Engine(tmp_path / "file")
        first.create_tables()
        first.put(TABLE, pk="p", sk=1, gp="g", gs="s")
        first.call("UpdateTimeToLive", TableName=PLAIN, TimeToLiveSpecification={"Enabled": True, "AttributeName": "t"})
        first.store.close()
        second = Engine(tmp_path / "file")
        assert second.call("ListTables") == {"TableNames": [PLAIN, TABLE]}
        assert found(page(second, "gp = :g", given={"g": "g"}, IndexName="everything")) == [1]
        state = second.call("DescribeTimeToLive", TableName=PLAIN)["TimeToLiveDescription"]
        assert state == {"TimeToLiveStatus": "ENABLED", "AttributeName": "t"}
        second.store.close()

    def test_a_file_has_one_owner(self, tmp_path: Path) -> None:
        first = Engine(tmp_path / "file")
        first.create_tables()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            Store(tmp_path / "file")
        first.store.close()

    def test_tables_are_empty_when_they_are_created_again(self, engine: Engine) -> None:
        engine.put(pk="a")
        assert engine.call("DeleteTable", TableName=PLAIN)["TableDescription"]["TableStatus"] == "DELETING"
        with pytest.raises(RequestFailed, match="ResourceNotFoundException"):
            engine.find(pk="a")
        engine.call("CreateTable", **plain())
        assert engine.all() == []

    def test_exist_once(self, engine: Engine) -> None:
        with pytest.raises(RequestFailed, match="ResourceInUseException"):
            engine.call("CreateTable", **plain())

    def test_describe_themselves(self, engine: Engine) -> None:
        described = engine.call("DescribeTable", TableName=TABLE)["Table"]
        assert described["TableStatus"] == "ACTIVE"
        assert described["BillingModeSummary"] == {"BillingMode": "PAY_PER_REQUEST"}
        assert [each["IndexStatus"] for each in described["GlobalSecondaryIndexes"]] == ["ACTIVE"] * 3

    def test_tables_are_listed_page_by_page(self, engine: Engine) -> None:
        first = engine.call("ListTables", Limit=1)
        assert first == {"TableNames": [PLAIN], "LastEvaluatedTableName": PLAIN}
        assert engine.call("ListTables", Limit=1, ExclusiveStartTableName=PLAIN) == {"TableNames": [TABLE]}

    @pytest.mark.parametrize(
        "change",
        [
            {"TableName": "ab"},
            {"TableName": "a b c"},
            {"TableName": None},
            {"TableName": "a" * 256},
            {"KeySchema": []},
            {"KeySchema": None},
            {"KeySchema": schema("pk", "pk")},
            {"KeySchema": schema("nowhere")},
            {"KeySchema": [{"AttributeName": "pk", "KeyType": "RANGE"}]},
            {"KeySchema": [{"AttributeName": "pk"}]},
            {"AttributeDefinitions": []},
            {"AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "BOOL"}]},
            {"AttributeDefinitions": things()["AttributeDefinitions"]},
            {"BillingMode": "BAD"},
            {"BillingMode": "PROVISIONED"},
            {"ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}},
            {"GlobalSecondaryIndexes": []},
            {"GlobalSecondaryIndexes": [index("x", schema("pk"), ProjectionType="ALL")]},
            {"GlobalSecondaryIndexes": [index("one", schema("pk"))]},
            {"GlobalSecondaryIndexes": [index("one", schema("pk"), ProjectionType="BAD")]},
            {"GlobalSecondaryIndexes": [index("one", schema("pk"), ProjectionType="INCLUDE")]},
            {"GlobalSecondaryIndexes": [index("one", schema("pk"), ProjectionType="ALL", NonKeyAttributes=["a"])]},
            {"GlobalSecondaryIndexes": [index("one", schema("pk"), ProjectionType="ALL")] * 2},
            {"LocalSecondaryIndexes": [index("one", schema("pk"), ProjectionType="ALL")]},
            {"StreamSpecification": {"StreamEnabled": True}},
            {"DeletionProtectionEnabled": True},
        ],
    )
    def test_invalid_tables_are_rejected(self, engine: Engine, change: dict[str, Any]) -> None:
        with pytest.raises(RequestFailed, match="ValidationException"):
            engine.call("CreateTable", **(plain() | {"TableName": "another"} | change))
        assert engine.call("ListTables")["TableNames"] == [PLAIN, TABLE]


class TestExpiry:
    def turn(self, engine: Engine, *, on: bool, name: str = "until") -> None:
        wanted = {"Enabled": on, "AttributeName": name}
        engine.call("UpdateTimeToLive", TableName=PLAIN, TimeToLiveSpecification=wanted)

    def test_deletes_expired_items_and_no_others(self, engine: Engine) -> None:
        now = int(engine.now)
        engine.put(pk="before it was turned on", until=now - 1)
        self.turn(engine, on=True)
        engine.put(pk="now", until=now)
        engine.put(pk="a fraction", until={"N": f"{now - 1}.5"})
        for name, until in {"later": now + 1, "text": str(now - 1), "long ago": now - MAX_EXPIRED_SECONDS - 1}.items():
            engine.put(pk=name, until=until)
        engine.put(pk="beyond counting", until={"N": "1e30"})
        engine.put(pk="below counting", until={"N": "-1e30"})
        engine.put(pk="never")
        assert engine.service.delete_expired() == 3
        kept = ["below counting", "beyond counting", "later", "long ago", "never", "text"]
        assert [item["pk"] for item in engine.all()] == kept
        assert engine.service.delete_expired() == 0

    def test_can_be_turned_off(self, engine: Engine) -> None:
        self.turn(engine, on=True)
        engine.put(pk="a", until=int(engine.now) - 1)
        self.turn(engine, on=False)
        assert engine.service.delete_expired() == 0
        assert engine.find(pk="a") is not None

    def test_an_item_that_is_written_again_has_its_new_time(self, engine: Engine) -> None:
        self.turn(engine, on=True)
        engine.put(pk="a", until=int(engine.now) - 1)
        engine.put(pk="a", until=int(engine.now) + 1)
        assert engine.service.delete_expired() == 0

    @pytest.mark.parametrize(
        "wanted",
        [
            None,
            {},
            {"Enabled": True},
            {"AttributeName": "t"},
            {"Enabled": True, "AttributeName": ""},
            {"Enabled": "x", "AttributeName": "t"},
            {"Enabled": False, "AttributeName": "t"},
        ],
    )
    def test_an_invalid_specification_of_expiry_is_rejected(self, engine: Engine, wanted: Any) -> None:
        with pytest.raises(RequestFailed) as failed:
            engine.call("UpdateTimeToLive", TableName=PLAIN, TimeToLiveSpecification=wanted)
        assert failed.value.status == 400

    def test_expiry_is_turned_on_once_and_off_by_its_name(self, engine: Engine) -> None:
        self.turn(engine, on=True)
        with pytest.raises(RequestFailed, match="already enabled"):
            self.turn(engine, on=True)
        with pytest.raises(RequestFailed, match="different AttributeName"):
            self.turn(engine, on=False, name="other")
