"""dynamolite and DynamoDB Local must give the same responses to the same HTTP requests.

Compared are status, error code (not its message), items, counts, the presence of a next page, and the cancellation
reasons of transactions. Where DynamoDB Local differs from AWS, dynamolite follows AWS and only its unit tests cover
the request:

- `UPDATED_OLD` and `UPDATED_NEW` of a nested path: AWS returns the path, Local the whole attribute;
- an update in a transaction that its item does not allow: a cancellation reason on AWS, an error in Local;
- an update that gives an index key a wrong type, a wrong `ReturnValuesOnConditionCheckFailure` in a transaction, an
  empty token, a pay-per-request table with a throughput, the words `size` and `convert`: Local accepts them;
- JSON of a wrong type: Local converts it (`{"S": 1}`) or fails (status 500), AWS returns `SerializationException`;
- rows with equal keys in a global index: their order is undefined, and Local's is different.
"""

import base64
import http.client
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.dynamodb import LIST_TABLES, DynamoDbEngine
from tests.engines.dynamodb_local import DynamoDbLocal
from tests.unit.engines.dynamolite.engine import PLAIN, TABLE, plain, things, value, values

TARGET = "DynamoDB_20120810."
ITEM: Mapping[str, Any] = {
    "s": "héllo",
    "e": "",
    "n": {"N": "1.50"},
    "b": {"B": "AQI="},
    "t": True,
    "z": None,
    "l": ["a", 2, {"k": "v"}],
    "m": {"a": "1", "b": {"c": 3}, "l": [1, 2, 3]},
    "ss": {"SS": ["a", "b"]},
    "ns": {"NS": ["1", "2.0"]},
    "bs": {"BS": ["AQI=", "AQ=="]},
}
PATHS = (
    "s",
    "e",
    "n",
    "b",
    "t",
    "z",
    "l",
    "m",
    "ss",
    "ns",
    "bs",
    "gone",
    "m.a",
    "m.b.c",
    "l[0]",
    "l[9]",
    "s.a",
    "m[0]",
)
VALUES: Sequence[Any] = (
    "héllo",
    {"N": "1.5"},
    {"B": "AQI="},
    True,
    None,
    ["a"],
    {},
    {"SS": ["b", "a"]},
    {"NS": ["2", "1"]},
    "",
    2,
)

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Client:
    connection: http.client.HTTPConnection

    def call(self, operation: str, request: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        headers = {**LIST_TABLES, "X-Amz-Target": TARGET + operation}
        self.connection.request("POST", "/", orjson.dumps(request), headers)
        response = self.connection.getresponse()
        body: dict[str, Any] = orjson.loads(response.read())
        return response.status, body


@dataclass(frozen=True, slots=True)
class Both:
    ours: Client
    theirs: Client

    def must_agree(self, operation: str, /, **request: Any) -> dict[str, Any]:
        """Send a request to both, require equal responses, and return the response."""
        theirs = comparable(*self.theirs.call(operation, request))
        ours = comparable(*self.ours.call(operation, request))
        assert ours == theirs, f"{operation} {orjson.dumps(request).decode()[:2000]}"
        return ours


def comparable(status: int, body: dict[str, Any]) -> dict[str, Any]:
    if status != 200:
        reasons = [
            {k: v for k, v in reason.items() if k != "Message"} for reason in body.get("CancellationReasons", [])
        ]
        code = body["__type"].rpartition("#")[2]
        return {"status": status, "code": code, "reasons": normal(reasons), "Item": normal(body.get("Item"))}
    return {name: normal(part) for name, part in body.items() if name not in {"ConsumedCapacity", "TableDescription"}}


def normal(part: Any) -> Any:
    """Normalize numbers and sort sets: Local returns numbers as they were written."""
    match part:
        case {"N": str(number)} if len(part) == 1:
            return {"N": f"{Decimal(number).normalize() + 0:f}"}
        case {"NS": [*numbers]} if len(part) == 1:
            return {"NS": sorted(f"{Decimal(number).normalize() + 0:f}" for number in numbers)}
        case {"SS": [*members]} | {"BS": [*members]} if len(part) == 1:
            return {next(iter(part)): sorted(members)}
        case dict():
            return {name: normal(inner) for name, inner in part.items()}
        case list():
            return [normal(inner) for inner in part]
    return part


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    with DynamoDbEngine() as ours, DynamoDbLocal() as theirs:
        addresses = [urlsplit(url).netloc for url in (ours, theirs)]
        connections = [http.client.HTTPConnection(address, timeout=30) for address in addresses]
        engines = Both(*map(Client, connections))
        engines.must_agree("CreateTable", **things())
        engines.must_agree("CreateTable", **plain())
        yield engines
        for connection in connections:
            connection.close()


@pytest.fixture
def key(both: Both) -> dict[str, Any]:
    """The key of a new item like `ITEM` on both engines."""
    key = values({"pk": f"item {next(_numbers)}"})
    both.must_agree("PutItem", TableName=PLAIN, Item=key | values(dict(ITEM)))
    return key


def given_values(**given: Any) -> dict[str, Any]:
    return {"ExpressionAttributeValues": {f":{name}": value(each) for name, each in given.items()}} if given else {}


class TestConditions:
    @pytest.mark.parametrize("path", PATHS)
    def test_both_agree_on_conditions_with_a_given_value(self, both: Both, key: dict[str, Any], path: str) -> None:
        templates = [f"{path} {operator} :v" for operator in ("=", "<>", "<", "<=", ">", ">=")]
        templates += [f"{path} BETWEEN :v AND :v", f"{path} IN (s, :v)" if path != "s" else "s IN (:v)"]
        templates += [f"{name}({path}, :v)" for name in ("begins_with", "contains", "attribute_type")]
        templates += [f"size({path}) >= :v", f"NOT {path} = :v"]
        for text, each in itertools.product(templates, VALUES):
            self.check(both, key, text, v=each)

    @pytest.mark.parametrize("path", PATHS)
    def test_both_agree_on_conditions_with_the_item_alone(self, both: Both, key: dict[str, Any], path: str) -> None:
        templates = ["{} = {}", "{} <> {}", "{} < {}", "contains({}, {})", "begins_with({}, {})", "size({}) > size({})"]
        for template, other in itertools.product(templates, ("s", "n", "l", "ss", "gone")):
            self.check(both, key, template.format(path, other))
        for text in (f"attribute_exists({path})", f"attribute_not_exists({path})"):
            self.check(both, key, text)
        for kind in ("S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS", "X"):
            self.check(both, key, f"attribute_type({path}, :v)", v=kind)
        for size in range(6):
            self.check(both, key, f"size({path}) = :v", v=size)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "a",
            "a = :v AND",
            "a == :v",
            "((a = :v))",
            "((a = :v) AND (b = :v))",
            "(NOT (a = :v))",
            "NOT NOT a = :v",
            "a = :v OR b = :v AND NOT (c = :v)",
            "size(:v) = :v",
            "size(a) = size(a)",
            "size(size(a)) = :v",
            "attribute_exists(:v)",
            "contains(a)",
            "contains(:v, a)",
            "begins_with(:v, a)",
            "ATTRIBUTE_EXISTS(a) AND a = :v",
            "foo(a) AND a = :v",
            "status = :v",
            "a.name = :v",
            "_a = :v",
            "aé = :v",
            "a[00] = :v",
            "a[2147483647] = :v",
            "a[2147483648] = :v",
            ".".join(["a"] * 32) + " = :v",
            ".".join(["a"] * 33) + " = :v",
            " AND ".join(["a = :v"] * 150),
            " AND ".join(["a = :v"] * 151),
            "a IN (" + ", ".join([":v"] * 100) + ")",
            "a IN (" + ", ".join([":v"] * 101) + ")",
            "#a = :v",
        ],
    )
    def test_both_agree_on_conditions_of_any_form(self, both: Both, key: dict[str, Any], text: str) -> None:
        self.check(both, key, text, v=1)

    @staticmethod
    def check(both: Both, key: dict[str, Any], text: str, **given: Any) -> None:
        both.must_agree(
            "PutItem", TableName=PLAIN, Item=key | values(dict(ITEM)), ConditionExpression=text, **given_values(**given)
        )


class TestUpdates:
    @pytest.mark.parametrize(
        "path",
        [
            "s",
            "n",
            "ss",
            "ns",
            "bs",
            "l",
            "gone",
            "m.gone",
            "m.b.c",
            "l[0]",
            "l[1]",
            "l[9]",
            "m.l[1]",
            "s.q",
            "gone.q",
            "gone[0]",
            "m[0]",
            "pk",
            "t",
        ],
    )
    def test_both_agree_on_updates_of_a_path(self, both: Both, key: dict[str, Any], path: str) -> None:
        templates = [f"SET {path} = :v", f"ADD {path} :v", f"DELETE {path} :v", f"SET {path} = {path} + :v"]
        templates += [f"SET q = if_not_exists({path}, :v)", f"SET q = list_append({path}, :v)", f"SET q = :v - {path}"]
        for text, each in itertools.product(templates, VALUES):
            self.check(both, key, text, v=each)
        self.check(both, key, f"REMOVE {path}")

    @pytest.mark.parametrize(
        ("text", "bound"),
        [
            ("SET a = :v, a = :v", {"v": 1}),
            ("SET m.a = :v, m = :v", {"v": 1}),
            ("SET m.a = :v, m.b = :v", {"v": 1}),
            ("SET l[9] = :v, l[7] = :w", {"v": 1, "w": 2}),
            ("SET l[0] = :v REMOVE l[1]", {"v": 1}),
            ("REMOVE l[0] SET l[1] = :v", {"v": 1}),
            ("REMOVE l[0], l[2].k", {}),
            ("REMOVE l[2], l[0], l[1]", {}),
            ("SET n = n + n", {}),
            ("SET a = n, n = s", {}),
            ("SET a = (n + :v)", {"v": 1}),
            ("SET a = :v + (:v)", {"v": 1}),
            ("SET a = ((:v))", {"v": 1}),
            ("SET a = :v + :v + :v", {"v": 1}),
            ("SET a = if_not_exists(gone, n) + :v", {"v": 1}),
            ("SET a = list_append(if_not_exists(gone, l), l)", {}),
            ("SET a = :v SET b = :v", {"v": 1}),
            ("set a = :v remove n", {"v": 1}),
            ("SET a = gone", {}),
            ("SET a = size(s)", {}),
            ("SET a = 1", {}),
            ("ADD n s", {}),
            ("SET a = :v ADD q :v DELETE ss :z", {"v": 1, "z": {"SS": ["a", "b"]}}),
            ("SET a = n + :v", {"v": {"N": "9" * 38}}),
            ("ADD n :v", {"v": {"N": "1e40"}}),
            ("SET a = :v + :v", {"v": {"N": "9e125"}}),
            ("SET a = :v", {"v": {"NS": ["1", "1.0"]}}),
            ("SET a = :v", {"v": {"SS": []}}),
            ("SET a = :v", {"v": {"N": "1" * 39}}),
            ("SET a = :v", {"v": {"N": "x"}}),
            ("SET a = :v", {"v": {"": "x"}}),
            ("SET a = :v", {"v": "x" * 410_000}),
        ],
    )
    def test_both_agree_on_updates_of_any_form(
        self, both: Both, key: dict[str, Any], text: str, bound: dict[str, Any]
    ) -> None:
        self.check(both, key, text, **bound)

    @pytest.mark.parametrize("wanted", ["NONE", "ALL_OLD", "UPDATED_OLD", "ALL_NEW", "UPDATED_NEW", "BAD", None])
    def test_return_values(self, both: Both, key: dict[str, Any], wanted: Any) -> None:
        options = {"TableName": PLAIN, "ReturnValues": wanted}
        texts = ("SET n = :v", "SET q = :v REMOVE s", "SET q = :v REMOVE gone")
        for text, target in itertools.product(texts, (key, values({"pk": f"new {wanted}"}))):
            both.must_agree("UpdateItem", Key=target, UpdateExpression=text, **options, **given_values(v=1))
        both.must_agree("UpdateItem", Key=key, **options)
        for _ in range(2):
            both.must_agree("PutItem", Item=key, **options)
        for _ in range(2):
            both.must_agree("DeleteItem", Key=key, **options)

    @staticmethod
    def check(both: Both, key: dict[str, Any], text: str, **given: Any) -> None:
        both.must_agree("PutItem", TableName=PLAIN, Item=key | values(dict(ITEM)))
        request = {"TableName": PLAIN, "Key": key, "UpdateExpression": text, "ReturnValues": "ALL_NEW"}
        both.must_agree("UpdateItem", **request, **given_values(**given))


class TestNumbers:
    @pytest.mark.parametrize(
        "number",
        [
            "0",
            "-0",
            "0.0",
            "00",
            "1e3",
            "+5",
            "-1.10",
            "1e125",
            "1e126",
            "1e-130",
            "1e-131",
            "0e999",
            "1" * 38 + "0",
            "1." + "1" * 38,
            "NaN",
            "0x1",
            "",
            ".5",
            "5.",
            " 5",
            "1_0",
            "--1",
        ],
    )
    def test_both_agree_on_numbers_as_keys_and_as_values(self, both: Both, number: str) -> None:
        partition = f"number {next(_numbers)}"
        item = values({"pk": partition, "sk": {"N": number}, "v": {"N": number}})
        both.must_agree("PutItem", TableName=TABLE, Item=item)
        both.must_agree("Query", TableName=TABLE, KeyConditionExpression="pk = :p", **given_values(p=partition))


class TestTransactions:
    def test_both_agree_on_transactions_that_are_rejected_or_cancelled(self, both: Both, key: dict[str, Any]) -> None:
        taken = {"Put": {"TableName": PLAIN, "Item": key, "ConditionExpression": "attribute_not_exists(pk)"}}
        shown = {"Put": {**taken["Put"], "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}}
        fine = {"Put": {"TableName": PLAIN, "Item": values({"pk": "fine"})}}
        update = {"TableName": PLAIN, "Key": values({"pk": "other"})}
        others: Sequence[dict[str, Any]] = [
            {"Update": {**update, "UpdateExpression": "SET a"}},
            {"Update": {**update, "UpdateExpression": "SET status = :v", **given_values(v=1)}},
            {"Update": {**update, "UpdateExpression": "SET a = :v, a = :v", **given_values(v=1)}},
            {"Update": {**update, "UpdateExpression": "SET a = :w", **given_values(v=1)}},
            {"Update": {**update, "UpdateExpression": "ADD a :v", **given_values(v="x")}},
            {"ConditionCheck": {**update, "ConditionExpression": "foo"}},
            {"ConditionCheck": {**update, "ConditionExpression": "a < :v", **given_values(v=True)}},
            {"ConditionCheck": {**update, "ConditionExpression": "attribute_exists(pk)"}},
            {"ConditionCheck": update},
            {"Delete": {**update, "ConditionExpression": "a <> :v", **given_values(v=1)}},
            {"Delete": {"TableName": PLAIN, "Key": values({"pk": "x", "y": "z"})}},
            {"Delete": {"TableName": PLAIN}},
            {"Put": {"TableName": PLAIN, "Item": values({"pk": 1})}},
            {"Put": {"TableName": PLAIN, "Item": values({"pk": ""})}},
            {"Put": {"TableName": PLAIN, "Item": values({"v": ""})}},
            {"Put": {"TableName": PLAIN, "Item": values({"pk": "x" * 2049})}},
            {"Put": {"TableName": PLAIN, "Item": values({"pk": "x", "v": "x" * 410_000})}},
            {"Put": {"TableName": TABLE, "Item": values({"pk": "x", "sk": 1, "gp": 1})}},
            {"Put": {"TableName": TABLE, "Item": values({"pk": "x", "sk": 1, "gp": ""})}},
            {"Put": {"TableName": "nowhere", "Item": values({"pk": "x"})}},
            {**fine, "Delete": update},
            {},
        ]
        for other in others:
            for actions in ([fine, other], [taken, other, fine], [fine, other, fine], [shown, fine, other]):
                both.must_agree("TransactWriteItems", TransactItems=actions)
        both.must_agree("TransactWriteItems", TransactItems=[])
        many = [{"Put": {"TableName": PLAIN, "Item": values({"pk": f"{n}"})}} for n in range(101)]
        both.must_agree("TransactWriteItems", TransactItems=many)
        both.must_agree("TransactWriteItems", TransactItems=many[1:])

    def test_both_agree_on_transactions_with_a_token(self, both: Both) -> None:
        token = f"token {next(_numbers)}"
        for added in (1, 1, 2):
            update = {"TableName": PLAIN, "Key": values({"pk": token}), "UpdateExpression": "ADD n :v"}
            actions = [{"Update": {**update, **given_values(v=added)}}]
            both.must_agree("TransactWriteItems", TransactItems=actions, ClientRequestToken=token)
        both.must_agree("GetItem", TableName=PLAIN, Key=values({"pk": token}))


class TestQueries:
    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _rows(cls, both: Both) -> None:
        for n in (-3, 0, 1, 2, 10):
            ls = {"B": base64.b64encode(bytes((n + 10,))).decode()}
            item = values(
                {"pk": "p", "sk": n, "gp": "g", "gs": f"s{n}", "ls": ls, "a": n, "b": "x", "m": {"a": [1, 2, n]}}
            )
            both.must_agree("PutItem", TableName=TABLE, Item=item)
        both.must_agree("PutItem", TableName=TABLE, Item=values({"pk": "p", "sk": 20}))

    @pytest.mark.parametrize(
        ("text", "bound"),
        [
            ("pk = :p", {}),
            ("pk = :p AND sk = :n", {"n": 1}),
            ("pk = :p AND sk < :n", {"n": 1}),
            ("pk = :p AND :n < sk", {"n": 1}),
            ("pk = :p AND sk <> :n", {"n": 1}),
            ("pk = :p AND sk BETWEEN :n AND :m", {"n": 0, "m": 2}),
            ("pk = :p AND sk BETWEEN :m AND :n", {"n": 0, "m": 2}),
            ("pk = :p AND begins_with(sk, :n)", {"n": 1}),
            ("pk = :p AND sk = :n", {"n": "1"}),
            ("pk = :p AND a = :n", {"n": 1}),
            ("pk = :p AND sk < :n AND sk > :n", {"n": 1}),
            ("(pk = :p) AND (sk = :n)", {"n": 1}),
            ("((pk = :p))", {}),
            ("pk = :p OR sk = :n", {"n": 1}),
            ("pk = :p", {"n": 1}),
            ("pk > :p", {}),
            ("sk = :p", {}),
            ("", {}),
        ],
    )
    def test_both_agree_on_queries_of_any_form(self, both: Both, text: str, bound: dict[str, Any]) -> None:
        for forward in (True, False):
            request = {"TableName": TABLE, "KeyConditionExpression": text, "ScanIndexForward": forward}
            both.must_agree("Query", **request, **given_values(p="p", **bound))

    @pytest.mark.parametrize(
        "options",
        [
            {"Select": "COUNT"},
            {"Select": "COUNT", "ProjectionExpression": "a"},
            {"Select": "SPECIFIC_ATTRIBUTES"},
            {"Select": "ALL_ATTRIBUTES"},
            {"Select": "ALL_PROJECTED_ATTRIBUTES"},
            {"Select": "BAD"},
            {"ProjectionExpression": "a, m.a[2]"},
            {"ProjectionExpression": "a, a"},
            {"ProjectionExpression": "m, m.a"},
            {"ProjectionExpression": "status"},
            {"FilterExpression": "attribute_exists(a)", "Limit": 3},
            {"FilterExpression": "attribute_exists(sk)"},
            {"FilterExpression": "attribute_exists(gs)"},
            {"ConsistentRead": True},
            {"Limit": 0},
            {"ExclusiveStartKey": {"pk": {"S": "p"}}},
            {"ExclusiveStartKey": {"pk": {"S": "q"}, "sk": {"N": "1"}}},
            {"ExclusiveStartKey": {"pk": {"S": "p"}, "sk": {"S": "1"}}},
        ],
    )
    def test_both_agree_on_queries_with_options(self, both: Both, options: dict[str, Any]) -> None:
        both.must_agree("Query", TableName=TABLE, KeyConditionExpression="pk = :v", **given_values(v="p"), **options)
        for index, name, each in (("everything", "gp", "g"), ("some", "gs", "s1"), ("local", "pk", "p")):
            request = {"TableName": TABLE, "IndexName": index, "KeyConditionExpression": f"{name} = :v"}
            both.must_agree("Query", **request, **given_values(v=each), **options)

    @pytest.mark.parametrize("limit", range(1, 8))
    @pytest.mark.parametrize("forward", [True, False])
    def test_page_by_page(self, both: Both, limit: int, forward: bool) -> None:
        for index, name, each in ((None, "pk", "p"), ("everything", "gp", "g")):
            request = {"TableName": TABLE, "KeyConditionExpression": f"{name} = :v", "ScanIndexForward": forward}
            more: dict[str, Any] = {}
            while True:
                response = both.must_agree(
                    "Query", **request, **given_values(v=each), **more, IndexName=index, Limit=limit
                )
                if "LastEvaluatedKey" not in response:
                    break
                more = {"ExclusiveStartKey": response["LastEvaluatedKey"]}


class TestTables:
    @pytest.mark.parametrize(
        "change",
        [
            {"TableName": "ab"},
            {"TableName": "a b c"},
            {"KeySchema": []},
            {"KeySchema": things()["KeySchema"]},
            {"AttributeDefinitions": []},
            {"AttributeDefinitions": things()["AttributeDefinitions"]},
            {"BillingMode": "PROVISIONED"},
            {"GlobalSecondaryIndexes": []},
            {"GlobalSecondaryIndexes": things()["GlobalSecondaryIndexes"]},
            {"LocalSecondaryIndexes": things()["LocalSecondaryIndexes"]},
            {"TableName": PLAIN},
        ],
    )
    def test_both_agree_on_invalid_tables(self, both: Both, change: dict[str, Any]) -> None:
        both.must_agree("CreateTable", **(plain() | {"TableName": "another"} | change))

    def test_expiry(self, both: Both) -> None:
        for enabled, name in ((False, "t"), (True, "t"), (True, "t"), (False, "other"), (False, "t"), (True, "")):
            wanted = {"Enabled": enabled, "AttributeName": name}
            both.must_agree("UpdateTimeToLive", TableName=PLAIN, TimeToLiveSpecification=wanted)
            both.must_agree("DescribeTimeToLive", TableName=PLAIN)


# Sequences

small = st.integers(0, 3)
scalars = st.one_of(small, st.sampled_from(["", "a", "ab"]), st.booleans(), st.none())
some_values = st.one_of(
    scalars,
    st.lists(scalars, max_size=3),
    st.dictionaries(st.sampled_from("xy"), scalars, max_size=2),
    st.sets(st.sampled_from("abc"), min_size=1).map(lambda members: {"SS": sorted(members)}),
    st.sets(st.sampled_from("123"), min_size=1).map(lambda members: {"NS": sorted(members)}),
)
some_names = st.sampled_from("ac")
some_paths = st.sampled_from(["a", "c", "a.x", "a[0]", "a[1]", "c.y", "pk"])
sort_keys = st.integers(0, 2)
texts_of_conditions = st.one_of(
    st.none(),
    st.builds("{} {} :c".format, some_paths, st.sampled_from(["=", "<>", "<", ">="])),
    st.builds("{}({})".format, st.sampled_from(["attribute_exists", "attribute_not_exists"]), some_paths),
    st.builds("{}({}, :c)".format, st.sampled_from(["contains", "begins_with"]), some_paths),
    st.builds("NOT size({}) > :c".format, some_paths),
)
texts_of_updates = st.one_of(
    st.builds("SET {} = :v".format, some_paths),
    st.builds("SET {} = {} + :v".format, some_names, some_names),
    st.builds("SET {} = if_not_exists({}, :v)".format, some_names, some_paths),
    st.builds("SET a = :v REMOVE {}".format, some_paths),
    st.builds("ADD {} :v".format, some_paths),
    st.builds("DELETE {} :v".format, some_names),
    st.builds("SET {} = list_append({}, :v)".format, some_names, some_names),
)


@st.composite
def writes(draw: st.DrawFn) -> tuple[str, int, dict[str, Any]]:
    """A kind of write, a sort key, and the rest of its request."""
    kind, condition = draw(st.sampled_from(["Put", "Update", "Delete"])), draw(texts_of_conditions)
    request: dict[str, Any] = {} if condition is None else {"ConditionExpression": condition}
    given = {"c": draw(some_values)} if condition is not None and ":c" in condition else {}
    if kind == "Put":
        request["Item"] = draw(st.dictionaries(some_names, some_values, max_size=2))
        if draw(st.booleans()):
            request["Item"]["gp"] = "g"
    if kind == "Update":
        request["UpdateExpression"] = draw(texts_of_updates)
        given["v"] = draw(some_values)
    return kind, draw(sort_keys), request | given_values(**given)


@st.composite
def reads(draw: st.DrawFn) -> dict[str, Any]:
    options: dict[str, Any] = {"ScanIndexForward": draw(st.booleans())}
    if draw(st.booleans()):
        options["Limit"] = draw(st.integers(1, 4))
    if draw(st.booleans()):
        options["ProjectionExpression"] = draw(st.sampled_from(["sk, a", "a.x, a.y", "c"]))
    return options


def with_key(partition: str, write: tuple[str, int, dict[str, Any]]) -> dict[str, Any]:
    kind, sort, request = write
    key = {"pk": partition, "sk": sort}
    if kind != "Put":
        return request | {"TableName": TABLE, "Key": values(key)}
    item = request["Item"] | key
    # Every item has a different index key, so that the order is defined.
    item |= {"gp": partition, "gs": f"s{sort}"} if "gp" in item else {}
    return request | {"TableName": TABLE, "Item": values(item)}


def depends_on_item(write: tuple[str, int, dict[str, Any]]) -> bool:
    """Whether the stored item may make it fail: in a transaction, Local and AWS respond differently then."""
    return write[0] == "Update"


class TestSequences:
    @settings(
        max_examples=400,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(
        steps=st.lists(
            writes()
            | st.lists(
                writes().filter(lambda write: not depends_on_item(write)),
                min_size=2,
                max_size=3,
                unique_by=lambda w: w[1],
            ),
            min_size=3,
            max_size=10,
        ),
        options=reads(),
    )
    def test_sequences_of_writes_leave_the_same_items(
        self, both: Both, steps: list[Any], options: dict[str, Any]
    ) -> None:
        partition = f"sequence {next(_numbers)}"
        for step in steps:
            if isinstance(step, list):
                actions = [{write[0]: with_key(partition, write)} for write in step]
                both.must_agree("TransactWriteItems", TransactItems=actions)
            else:
                wanted = "ALL_NEW" if step[0] == "Update" else "ALL_OLD"
                both.must_agree(f"{step[0]}Item", **with_key(partition, step), ReturnValues=wanted)
        for request in (
            {"KeyConditionExpression": "pk = :p"},
            {"KeyConditionExpression": "gp = :p", "IndexName": "everything"},
        ):
            both.must_agree("Query", TableName=TABLE, **request, **options, **given_values(p=partition))
            both.must_agree("Query", TableName=TABLE, **request, **given_values(p=partition))
