"""dynamolite without HTTP: requests and responses as Python values."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from engines.dynamolite.service import Service
from engines.dynamolite.store import Store

TABLE, PLAIN = "things", "plain"


class RequestFailed(Exception):
    """Raised for an error response."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        self.status = status
        self.code = body["__type"].rpartition("#")[2]
        self.body = body
        self.reasons = [reason["Code"] for reason in body.get("CancellationReasons", [])]
        super().__init__(f"{status} {self.code}: {body['message']}")


class Engine:
    """A service on its own store. `now` is its clock."""

    def __init__(self, path: Path | None = None) -> None:
        self.now = 1_800_000_000.0
        self.store = Store(path)
        self.service = Service(self.store, clock=lambda: self.now)

    def call(self, operation: str, **request: Any) -> dict[str, Any]:
        return self.call_raw(operation, orjson.dumps(request))

    def call_raw(self, operation: str, body: bytes) -> dict[str, Any]:
        (response,) = self.service.handle_all([(operation, body)])
        content: dict[str, Any] = orjson.loads(response.body)
        if response.status != 200:
            raise RequestFailed(response.status, content)
        return content

    def create_tables(self) -> None:
        """`things` has a sort key and indexes of every kind; `plain` has neither."""
        self.call("CreateTable", **things())
        self.call("CreateTable", **plain())

    def put(self, table: str = PLAIN, /, **attributes: Any) -> None:
        self.call("PutItem", TableName=table, Item=values(attributes))

    def find(self, table: str = PLAIN, /, **key: Any) -> dict[str, Any] | None:
        item = self.call("GetItem", TableName=table, Key=values(key)).get("Item")
        return None if item is None else {name: content(value) for name, value in item.items()}

    def all(self, table: str = PLAIN) -> list[dict[str, Any]]:
        items = self.call("Scan", TableName=table)["Items"]
        return [{name: content(value) for name, value in item.items()} for item in items]


def things() -> dict[str, Any]:
    return {
        "TableName": TABLE,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": definitions(pk="S", sk="N", gp="S", gs="S", ls="B"),
        "KeySchema": schema("pk", "sk"),
        "GlobalSecondaryIndexes": [
            index("everything", schema("gp", "gs"), ProjectionType="ALL"),
            index("keys", schema("gp"), ProjectionType="KEYS_ONLY"),
            index("some", schema("gs"), ProjectionType="INCLUDE", NonKeyAttributes=["a"]),
        ],
        "LocalSecondaryIndexes": [index("local", schema("pk", "ls"), ProjectionType="KEYS_ONLY")],
    }


def plain() -> dict[str, Any]:
    return {
        "TableName": PLAIN,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": definitions(pk="S"),
        "KeySchema": schema("pk"),
    }


def definitions(**types: str) -> list[dict[str, str]]:
    return [{"AttributeName": name, "AttributeType": kind} for name, kind in types.items()]


def schema(partition: str, *sort: str) -> list[dict[str, str]]:
    kinds = zip((partition, *sort), ("HASH", "RANGE"), strict=False)
    return [{"AttributeName": name, "KeyType": kind} for name, kind in kinds]


def index(name: str, keys: Sequence[dict[str, str]], **projection: Any) -> dict[str, Any]:
    return {"IndexName": name, "KeySchema": keys, "Projection": projection}


def values(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value(plain) for name, plain in attributes.items()}


def value(plain: Any) -> dict[str, Any]:
    """Return the attribute value of a Python value. Attribute values such as `{"SS": ["a"]}` stay as they are."""
    match plain:
        case bool():
            return {"BOOL": plain}
        case None:
            return {"NULL": True}
        case int():
            return {"N": str(plain)}
        case str():
            return {"S": plain}
        case list():
            return {"L": [value(member) for member in plain]}
        case {"B": _} | {"N": _} | {"SS": _} | {"NS": _} | {"BS": _}:
            return dict(plain)
        case dict():
            return {"M": values(plain)}
    raise TypeError(f"no attribute value is {plain!r}")


def content(stored: dict[str, Any]) -> Any:
    """Return the Python value of an attribute value. Sets and binaries stay as they are, sets sorted."""
    ((kind, inner),) = stored.items()
    match kind:
        case "S" | "BOOL":
            return inner
        case "NULL":
            return None
        case "N":
            return int(inner) if inner.lstrip("-").isdigit() else stored
        case "L":
            return [content(member) for member in inner]
        case "M":
            return {name: content(member) for name, member in inner.items()}
        case "SS" | "NS" | "BS":
            return {kind: sorted(inner)}
    return stored
