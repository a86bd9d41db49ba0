"""Writes, transactions, batches of items, batches of requests, malformed requests."""

import copy
import sqlite3
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.dynamolite.service import TOKEN_TTL_SECONDS
from engines.dynamolite.store import Table
from tests.unit.engines.dynamolite.engine import PLAIN, TABLE, Engine, RequestFailed, things, value, values


def put(pk: str, table: str = PLAIN, /, **more: Any) -> dict[str, Any]:
    options = {name: more.pop(name) for name in list(more) if name[0].isupper()}
    return {"Put": {"TableName": table, "Item": values({"pk": pk, **more}), **options}}


def new(pk: str, **more: Any) -> dict[str, Any]:
    return put(pk, ConditionExpression="attribute_not_exists(pk)", **more)


def update(pk: str, text: str, **given: Any) -> dict[str, Any]:
    placeholders = (
        {"ExpressionAttributeValues": {f":{name}": value(plain) for name, plain in given.items()}} if given else {}
    )
    return {"Update": {"TableName": PLAIN, "Key": values({"pk": pk}), "UpdateExpression": text, **placeholders}}


def delete(pk: str, **options: Any) -> dict[str, Any]:
    return {"Delete": {"TableName": PLAIN, "Key": values({"pk": pk}), **options}}


def check(pk: str, condition: str = "attribute_exists(pk)") -> dict[str, Any]:
    return {"ConditionCheck": {"TableName": PLAIN, "Key": values({"pk": pk}), "ConditionExpression": condition}}


def transact(engine: Engine, *actions: dict[str, Any], **options: Any) -> dict[str, Any]:
    return engine.call("TransactWriteItems", TransactItems=list(actions), **options)


class TestReturnValues:
    @pytest.fixture(autouse=True)
    def _item(self, engine: Engine) -> None:
        engine.put(pk="a", n=1, s="old", m={"x": 1, "y": 2}, l=[1, 2, 3])

    @pytest.mark.parametrize(
        ("kind", "expected"), [(None, None), ("NONE", None), ("ALL_OLD", {"pk", "n", "s", "m", "l"})]
    )
    def test_return_values_of_puts_and_deletes_are_the_old_item(self, engine: Engine, kind: Any, expected: Any) -> None:
        for operation, what in (
            ("PutItem", {"Item": values({"pk": "a"})}),
            ("DeleteItem", {"Key": values({"pk": "a"})}),
        ):
            engine.put(pk="a", n=1, s="old", m={}, l=[])
            response = engine.call(operation, TableName=PLAIN, ReturnValues=kind, **what)
            assert (set(response["Attributes"]) if expected else response) == (expected or {})

    def test_return_values_of_a_missing_item_are_empty(self, engine: Engine) -> None:
        assert engine.call("DeleteItem", TableName=PLAIN, Key=values({"pk": "b"}), ReturnValues="ALL_OLD") == {}
        assert engine.call("PutItem", TableName=PLAIN, Item=values({"pk": "b"}), ReturnValues="ALL_OLD") == {}

    @pytest.mark.parametrize(
        ("text", "kind", "expected"),
        [
            ("SET n = :v", "ALL_NEW", {"pk": "a", "n": 9, "s": "old", "m": {"x": 1, "y": 2}, "l": [1, 2, 3]}),
            ("SET n = :v", "ALL_OLD", {"pk": "a", "n": 1, "s": "old", "m": {"x": 1, "y": 2}, "l": [1, 2, 3]}),
            ("SET n = :v, q = :v REMOVE s", "UPDATED_NEW", {"n": 9, "q": 9}),
            ("SET n = :v, q = :v REMOVE s", "UPDATED_OLD", {"n": 1, "s": "old"}),
            ("SET m.x = :v", "UPDATED_NEW", {"m": {"x": 9}}),
            ("SET m.x = :v", "UPDATED_OLD", {"m": {"x": 1}}),
            ("SET m.z = :v", "UPDATED_OLD", None),
            ("SET l[1] = :v", "UPDATED_OLD", {"l": [2]}),
            ("SET l[9] = :v", "UPDATED_NEW", None),
            ("SET q = :v", "UPDATED_OLD", None),
            ("SET n = :v", "NONE", None),
        ],
    )
    def test_return_values_of_updates_are_the_updated_attributes(
        self, engine: Engine, text: str, kind: str, expected: Any
    ) -> None:
        response = engine.call("UpdateItem", **update("a", text, v=9)["Update"], ReturnValues=kind)
        assert response == ({} if expected is None else {"Attributes": values(expected)})

    @pytest.mark.parametrize("kind", ["BAD", "", 3, [], "ALL_NEW", "UPDATED_OLD"])
    def test_invalid_return_values_are_rejected_before_anything_is_written(self, engine: Engine, kind: Any) -> None:
        with pytest.raises(RequestFailed, match="400"):
            engine.call("PutItem", TableName=PLAIN, Item=values({"pk": "b"}), ReturnValues=kind)
        assert engine.find(pk="b") is None

    def test_return_values_of_a_failed_condition_show_the_stored_item(self, engine: Engine) -> None:
        request = new("a", ReturnValuesOnConditionCheckFailure="ALL_OLD")["Put"]
        with pytest.raises(RequestFailed, match="ConditionalCheckFailedException") as failed:
            engine.call("PutItem", **request)
        assert failed.value.body["Item"]["s"] == {"S": "old"}
        with pytest.raises(RequestFailed) as failed:
            engine.call("PutItem", **new("a")["Put"])
        assert "Item" not in failed.value.body


class TestItems:
    def test_an_update_of_a_missing_item_creates_it(self, engine: Engine) -> None:
        engine.call("UpdateItem", TableName=PLAIN, Key=values({"pk": "a"}))
        engine.call("UpdateItem", **update("b", "ADD n :v", v=1)["Update"])
        assert engine.all() == [{"pk": "a"}, {"n": 1, "pk": "b"}]

    def test_items_are_at_most_400_kilobytes(self, engine: Engine) -> None:
        most = 400 * 1024 - len("pk" + "a" + "v")
        engine.put(pk="a", v="x" * most)
        with pytest.raises(RequestFailed, match="Item size"):
            engine.put(pk="a", v="x" * (most + 1))
        with pytest.raises(RequestFailed, match="Item size"):
            engine.call("UpdateItem", **update("a", "SET w = :v", v="x")["Update"])
        assert engine.find(pk="a") == {"pk": "a", "v": "x" * most}

    @pytest.mark.parametrize(
        "key",
        [
            None,
            {},
            {"pk": {"N": "1"}},
            {"pk": {"S": ""}},
            {"x": {"S": "a"}},
            {"pk": {"S": "a"}, "x": {"S": "a"}},
            {"pk": {"S": "x" * 2049}},
            "a",
            {"pk": "a"},
            {"pk": None},
        ],
    )
    def test_items_are_named_by_their_key_and_nothing_else(self, engine: Engine, key: Any) -> None:
        for operation in ("GetItem", "DeleteItem", "UpdateItem"):
            with pytest.raises(RequestFailed) as failed:
                engine.call(operation, TableName=PLAIN, Key=key)
            assert failed.value.code in {"ValidationException", "SerializationException"}

    def test_an_update_leaves_the_key_alone(self, engine: Engine) -> None:
        for text in ("SET pk = :v", "SET pk.a = :v", "ADD pk :v"):
            with pytest.raises(RequestFailed, match="part of the key"):
                engine.call("UpdateItem", **update("a", text, v=1)["Update"])

    @pytest.mark.parametrize("name", [None, 5, "x", "no/name"])
    def test_items_of_a_table_without_a_name_are_not_looked_for(self, engine: Engine, name: Any) -> None:
        with pytest.raises(RequestFailed, match="ValidationException"):
            engine.call("GetItem", TableName=name, Key=values({"pk": "a"}))

    @pytest.mark.parametrize("name", ["Expected", "AttributeUpdates", "ConditionalOperator"])
    def test_what_is_not_offered_is_rejected_by_name(self, engine: Engine, name: str) -> None:
        with pytest.raises(RequestFailed, match=f"{name} is not offered here"):
            engine.call("UpdateItem", TableName=PLAIN, Key=values({"pk": "a"}), **{name: {}})
        with pytest.raises(RequestFailed, match="UnknownOperationException"):
            engine.call("ExecuteStatement", Statement="SELECT")


class TestTransactions:
    def test_do_everything(self, engine: Engine) -> None:
        engine.put(pk="gone")
        engine.put(pk="there")
        assert transact(engine, new("a"), update("b", "SET n = :v", v=1), delete("gone"), check("there")) == {}
        assert [item["pk"] for item in engine.all()] == ["a", "b", "there"]

    def test_or_nothing_and_give_a_reason_per_item(self, engine: Engine) -> None:
        engine.put(pk="a", n=1)
        with pytest.raises(RequestFailed, match="TransactionCanceledException") as failed:
            transact(
                engine,
                put("b"),
                new("a", ReturnValuesOnConditionCheckFailure="ALL_OLD"),
                check("c"),
                update("d", "SET x = y"),
                update("e", "SET n = :v", v=1),
            )
        codes = ["None", "ConditionalCheckFailed", "ConditionalCheckFailed", "ValidationError", "None"]
        assert failed.value.reasons == codes
        assert failed.value.body["CancellationReasons"][1]["Item"] == values({"pk": "a", "n": 1})
        assert engine.all() == [{"n": 1, "pk": "a"}]

    @pytest.mark.parametrize(
        "invalid",
        [
            update("x", "SET a.b = :v", v=1),
            update("x", "SET a = b"),
            update("x", "SET pk = :v", v=1),
            update("x", "SET a = :v", v="x" * 410_000),
            put("x", TABLE, sk="not a number"),
            put("x", TABLE, sk=1, gp=5),
            put("x" * 2049),
        ],
    )
    def test_an_invalid_item_is_a_cancellation_reason(self, engine: Engine, invalid: dict[str, Any]) -> None:
        with pytest.raises(RequestFailed, match="TransactionCanceledException") as failed:
            transact(engine, put("a"), invalid, put("b"))
        assert failed.value.reasons == ["None", "ValidationError", "None"]
        assert engine.all() == []

    @pytest.mark.parametrize(
        "malformed",
        [
            update("x", "SET"),
            update("x", "SET status = :v", v=1),
            update("x", "SET a = :v, a = :v", v=1),
            update("x", "SET a = :w", v=1),
            {"Update": {"TableName": PLAIN, "Key": values({"pk": "x"})}},
            {"ConditionCheck": {"TableName": PLAIN, "Key": values({"pk": "x"})}},
            {"Put": {"TableName": PLAIN, "Item": {"pk": {}}}},
            {"Put": {"TableName": PLAIN, "Item": {"v": {"S": "no key"}}}},
            {"Put": {"TableName": PLAIN}},
            put(""),
            put("x", v="x" * 410_000),
            put("x", ReturnValuesOnConditionCheckFailure="BAD"),
            {**put("x"), **delete("y")},
            {"Get": {}},
            {},
        ],
    )
    def test_a_malformed_action_rejects_the_whole_transaction(self, engine: Engine, malformed: dict[str, Any]) -> None:
        engine.put(pk="there")
        with pytest.raises(RequestFailed, match="ValidationException"):
            transact(engine, put("a"), new("there"), malformed)
        assert engine.all() == [{"pk": "there"}]

    def test_touch_an_item_once(self, engine: Engine) -> None:
        engine.put(pk="there")
        for other in (check("a", "attribute_not_exists(pk)"), delete("a"), put("a"), update("a", "SET n = :v", v=1)):
            with pytest.raises(RequestFailed, match="multiple operations on one item"):
                transact(engine, put("a"), new("there"), other)

    def test_have_one_to_a_hundred_items(self, engine: Engine) -> None:
        transact(engine, *(put(f"{number}") for number in range(100)))
        assert len(engine.all()) == 100
        for count in (0, 101):
            with pytest.raises(RequestFailed, match="ValidationException"):
                transact(engine, *(put(f"{number}") for number in range(count)))

    def test_have_four_megabytes(self, engine: Engine) -> None:
        transact(engine, *(put(f"{number}", v="x" * 399_000) for number in range(10)))
        with pytest.raises(RequestFailed, match="4MB"):
            transact(engine, *(put(f"{number}", v="x" * 399_000) for number in range(11)))
        with pytest.raises(RequestFailed, match="4MB"):
            transact(engine, *(update(f"{number}", "SET v = :v", v="x" * 399_000) for number in range(11)))

    def test_transactions_are_executed_once_for_one_token(self, engine: Engine) -> None:
        count = update("a", "ADD n :v", v=1)
        for _ in range(2):
            assert transact(engine, count, ClientRequestToken="t") == {}
        assert engine.find(pk="a") == {"pk": "a", "n": 1}
        with pytest.raises(RequestFailed, match="IdempotentParameterMismatchException"):
            transact(engine, update("a", "ADD n :v", v=2), ClientRequestToken="t")
        engine.now += TOKEN_TTL_SECONDS + 1
        transact(engine, count, ClientRequestToken="t")
        assert engine.find(pk="a") == {"pk": "a", "n": 2}

    def test_cancelled_transactions_may_be_tried_again_with_their_token(self, engine: Engine) -> None:
        engine.put(pk="a")
        with pytest.raises(RequestFailed, match="TransactionCanceledException"):
            transact(engine, new("a"), ClientRequestToken="t")
        engine.call("DeleteItem", TableName=PLAIN, Key=values({"pk": "a"}))
        transact(engine, new("a"), ClientRequestToken="t")
        assert engine.find(pk="a") == {"pk": "a"}

    @pytest.mark.parametrize("token", ["", "x" * 37, 5, []])
    def test_have_tokens_of_36_characters(self, engine: Engine, token: Any) -> None:
        with pytest.raises(RequestFailed, match="ClientRequestToken"):
            transact(engine, put("a"), ClientRequestToken=token)

    def test_transactions_of_reads_return_the_items_in_order(self, engine: Engine) -> None:
        engine.put(pk="a", n=1, s="x")
        get = {"Get": {"TableName": PLAIN, "Key": values({"pk": "a"}), "ProjectionExpression": "n"}}
        other = {"Get": {"TableName": PLAIN, "Key": values({"pk": "b"})}}
        assert engine.call("TransactGetItems", TransactItems=[other, get]) == {
            "Responses": [{}, {"Item": values({"n": 1})}]
        }
        wrong = {"Get": {"TableName": PLAIN, "Key": values({"pk": 1})}}
        with pytest.raises(RequestFailed, match="TransactionCanceledException") as failed:
            engine.call("TransactGetItems", TransactItems=[get, wrong])
        assert failed.value.reasons == ["None", "ValidationError"]
        invalid: list[list[dict[str, Any]]] = [[], [get, get], [{}], [put("a")], [get] * 101]
        for actions in invalid:
            with pytest.raises(RequestFailed, match="ValidationException"):
                engine.call("TransactGetItems", TransactItems=actions)


class TestBatches:
    def write(self, engine: Engine, *entries: dict[str, Any]) -> dict[str, Any]:
        return engine.call("BatchWriteItem", RequestItems={PLAIN: list(entries)})

    def test_write_and_delete(self, engine: Engine) -> None:
        engine.put(pk="gone")
        entries = [{"PutRequest": {"Item": values({"pk": "a"})}}, {"DeleteRequest": {"Key": values({"pk": "gone"})}}]
        assert self.write(engine, *entries) == {"UnprocessedItems": {}}
        assert engine.all() == [{"pk": "a"}]

    @pytest.mark.parametrize(
        "entries",
        [
            [],
            [{}],
            [{"Foo": {}}],
            [{"PutRequest": None}],
            [{"PutRequest": {}}],
            [{"PutRequest": {"Item": {"pk": {"N": "1"}}}}],
            [{"PutRequest": {"Item": {"pk": {"S": "a"}}}, "DeleteRequest": {"Key": {"pk": {"S": "b"}}}}],
            [{"PutRequest": {"Item": {"pk": {"S": "a"}}}}, {"DeleteRequest": {"Key": {"pk": {"S": "a"}}}}],
            [{"PutRequest": {"Item": {"pk": {"S": str(number)}}}} for number in range(26)],
        ],
    )
    def test_invalid_batches_write_nothing(self, engine: Engine, entries: list[Any]) -> None:
        with pytest.raises(RequestFailed, match="ValidationException"):
            self.write(engine, *entries)
        assert engine.all() == []

    def test_get_the_items_that_exist(self, engine: Engine) -> None:
        engine.put(pk="a", n=1, s="x")
        get = {"Keys": [values({"pk": "a"}), values({"pk": "b"})], "ProjectionExpression": "n"}
        response = engine.call("BatchGetItem", RequestItems={PLAIN: get})
        assert response == {"Responses": {PLAIN: [values({"n": 1})]}, "UnprocessedKeys": {}}

    def test_get_sixteen_megabytes_and_return_the_rest_as_unprocessed(self, engine: Engine) -> None:
        for number in range(50):
            engine.put(pk=f"{number}", v="x" * 390_000)
        keys = [values({"pk": f"{number}"}) for number in range(50)]
        response = engine.call("BatchGetItem", RequestItems={PLAIN: {"Keys": keys, "ConsistentRead": True}})
        left = response["UnprocessedKeys"][PLAIN]
        assert left["ConsistentRead"] is True
        assert len(response["Responses"][PLAIN]) + len(left["Keys"]) == 50
        again = engine.call("BatchGetItem", RequestItems=response["UnprocessedKeys"])
        assert again["UnprocessedKeys"] == {}
        assert len(again["Responses"][PLAIN]) == len(left["Keys"])

    @pytest.mark.parametrize(
        "keys", [[], [{"pk": {"S": "a"}}] * 2, [{"pk": {"S": str(number)}} for number in range(101)], [{}], None]
    )
    def test_batches_of_invalid_keys_are_rejected(self, engine: Engine, keys: Any) -> None:
        with pytest.raises(RequestFailed, match="ValidationException"):
            engine.call("BatchGetItem", RequestItems={PLAIN: {"Keys": keys}})


class TestBatchesOfRequests:
    def test_batches_of_requests_are_executed_in_order(self, engine: Engine) -> None:
        requests = [
            ("UpdateItem", orjson.dumps({**update("a", "ADD n :v", v=1)["Update"], "ReturnValues": "UPDATED_NEW"}))
        ]
        responses = engine.service.handle_all(requests * 3)
        assert [orjson.loads(response.body)["Attributes"] for response in responses] == [
            values({"n": n}) for n in (1, 2, 3)
        ]

    def test_an_error_does_not_affect_the_other_requests(self, engine: Engine) -> None:
        requests = [
            ("PutItem", orjson.dumps(put("a")["Put"])),
            ("PutItem", b'{"TableName": "plain", "Item": [1]}'),
            ("PutItem", b"{"),
            ("TransactWriteItems", orjson.dumps({"TransactItems": [put("b"), "x"]})),
            ("PutItem", orjson.dumps(put("c")["Put"])),
        ]
        assert [response.status for response in engine.service.handle_all(requests)] == [200, 400, 400, 400, 200]
        assert [item["pk"] for item in engine.all()] == ["a", "c"]

    def test_batches_of_requests_that_cannot_be_written_are_rolled_back(
        self, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(table: Table, rows: Any) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        engine.put(pk="a", n=1)
        requests = [
            ("DeleteItem", orjson.dumps({"TableName": PLAIN, "Key": values({"pk": "a"})})),
            ("DeleteTable", orjson.dumps({"TableName": TABLE})),
            ("TransactWriteItems", orjson.dumps({"TransactItems": [delete("x")], "ClientRequestToken": "t"})),
            ("PutItem", orjson.dumps(put("b")["Put"])),
        ]
        with monkeypatch.context() as broken:
            broken.setattr(Table, "put", fail)
            responses = engine.service.handle_all(requests)
        assert {response.status for response in responses} == {500}
        assert {orjson.loads(response.body)["__type"].rpartition("#")[2] for response in responses} == {
            "InternalServerError"
        }
        assert engine.all() == [{"pk": "a", "n": 1}]
        assert engine.call("ListTables")["TableNames"] == [PLAIN, TABLE]
        assert transact(engine, put("new"), ClientRequestToken="t") == {}
        assert engine.find(pk="new") is not None

    def test_batches_of_requests_whose_commit_fails_are_rolled_back(
        self, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        transact(engine, put("before"), ClientRequestToken="old")
        store = engine.store
        with monkeypatch.context() as broken:
            broken.setattr(store, "_database", FailingCommit(store._database))
            responses = engine.service.handle_all([("PutItem", orjson.dumps(put(name)["Put"])) for name in "ab"])
        assert [response.status for response in responses] == [500, 500]
        assert engine.all() == [{"pk": "before"}]
        transact(engine, put("before"), ClientRequestToken="old")
        engine.put(pk="a")
        assert engine.find(pk="a") == {"pk": "a"}


class FailingCommit:
    """A database whose disk is full at the end of a transaction."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def execute(self, sql: str, *operands: Any) -> sqlite3.Cursor:
        if sql == "COMMIT":
            raise sqlite3.OperationalError("database or disk is full")
        return self._database.execute(sql, *operands)


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
key = {"pk": {"S": "a"}}
item = {"pk": {"S": "a"}, "sk": {"N": "1"}, "gp": {"S": "g"}, "m": {"M": {"a": {"L": [{"SS": ["b"]}]}}}}
condition = {
    "ConditionExpression": "attribute_not_exists(#a) OR a = :a OR size(b) > :b",
    "ExpressionAttributeNames": {"#a": "a"},
    "ExpressionAttributeValues": {":a": {"S": "a"}, ":b": {"N": "1"}},
}
change = {"UpdateExpression": "SET n = if_not_exists(m.n, :n)", "ExpressionAttributeValues": {":n": {"N": "1"}}}
query = {
    "KeyConditionExpression": "gp = :g",
    "ExpressionAttributeValues": {":g": {"S": "g"}},
    "IndexName": "everything",
}
# A request of each operation that is carried out as it is.
SOUND: dict[str, dict[str, Any]] = {
    "BatchGetItem": {"RequestItems": {PLAIN: {"Keys": [key], "ProjectionExpression": "a"}}},
    "BatchWriteItem": {
        "RequestItems": {PLAIN: [{"PutRequest": {"Item": key}}], TABLE: [{"PutRequest": {"Item": item}}]}
    },
    "CreateTable": {**things(), "TableName": "another"},
    "DeleteItem": {"TableName": PLAIN, "Key": key, **condition, "ReturnValues": "ALL_OLD"},
    "DeleteTable": {"TableName": PLAIN},
    "DescribeTable": {"TableName": PLAIN},
    "DescribeTimeToLive": {"TableName": PLAIN},
    "GetItem": {"TableName": PLAIN, "Key": key, "ProjectionExpression": "a.b[0]", "ConsistentRead": True},
    "ListTables": {"Limit": 1, "ExclusiveStartTableName": "abc"},
    "PutItem": {"TableName": TABLE, "Item": item, "ReturnValues": "NONE"},
    "Query": {"TableName": TABLE, **query, "Limit": 1, "Select": "COUNT", "FilterExpression": "attribute_exists(a)"},
    "Scan": {"TableName": TABLE, "IndexName": "everything", "Limit": 1, "ProjectionExpression": "m.a"},
    "TransactGetItems": {"TransactItems": [{"Get": {"TableName": PLAIN, "Key": key}}]},
    "TransactWriteItems": {
        "TransactItems": [
            {"Put": {"TableName": TABLE, "Item": item}},
            {"Update": {"TableName": PLAIN, "Key": key, **change}},
            {"Delete": {"TableName": PLAIN, "Key": {"pk": {"S": "b"}}, **condition}},
        ]
    },
    "UpdateItem": {"TableName": PLAIN, "Key": {"pk": {"S": "c"}}, **change, "ReturnValues": "ALL_NEW"},
    "UpdateTimeToLive": {"TableName": PLAIN, "TimeToLiveSpecification": {"Enabled": True, "AttributeName": "t"}},
}


@st.composite
def broken(draw: st.DrawFn, sound: Any) -> Any:
    """A request of which one part is something else."""
    if not isinstance(sound, dict | list) or not sound or draw(st.integers(0, 4)) == 0:
        return draw(anything)
    place = draw(st.sampled_from(range(len(sound)) if isinstance(sound, list) else list(sound)))
    copied = copy.copy(sound)
    copied[place] = draw(broken(sound[place]))
    return copied


class TestMalformedRequests:
    @pytest.mark.parametrize("operation", SOUND)
    def test_the_sound_requests_that_they_are_made_of_are_accepted(self, engine: Engine, operation: str) -> None:
        assert engine.call(operation, **SOUND[operation]) is not None

    @settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
    @given(data=st.data())
    @pytest.mark.parametrize("operation", SOUND)
    def test_malformed_requests_are_rejected_and_never_break_the_engine(
        self, engine: Engine, operation: str, data: st.DataObject
    ) -> None:
        request = data.draw(broken(SOUND[operation]))
        (response,) = engine.service.handle_all([(operation, orjson.dumps(request))])
        assert response.status in {200, 400}
        if response.status == 400:
            assert orjson.loads(response.body)["__type"].endswith("Exception")

    @pytest.mark.parametrize("operation", SOUND)
    @pytest.mark.parametrize(
        "body", [b"", b"{", b"[]", b"null", b"5", b'"x"', b"\xff", b'{"a": "\\ud800"}', b"[" * 5000]
    )
    def test_requests_that_are_no_json_object_cannot_be_read(self, engine: Engine, operation: str, body: bytes) -> None:
        with pytest.raises(RequestFailed, match="SerializationException"):
            engine.call_raw(operation, body)

    @pytest.mark.parametrize(
        "text", ["(NOT " * 299 + "a = :v" + ")" * 299, "(a = :v AND " * 149 + "a = :v" + ")" * 149]
    )
    def test_requests_that_nest_deeply_are_executed_or_rejected(self, engine: Engine, text: str) -> None:
        request = {"TableName": PLAIN, "Key": values({"pk": "a"}), "ExpressionAttributeValues": values({":v": 1})}
        with pytest.raises(RequestFailed, match="400"):
            engine.call("DeleteItem", **request, ConditionExpression=text)
