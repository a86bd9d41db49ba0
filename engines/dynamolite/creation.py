"""CreateTable: what a table may be. Each refusal is one that DynamoDB would give."""

import time
import uuid
from collections.abc import Sequence
from typing import Any

from engines.dynamolite.errors import ValidationException
from engines.dynamolite.requests import Request, choice_of, is_set, list_of, require_name
from engines.dynamolite.tables import Table

GLOBAL, LOCAL = "GlobalSecondaryIndexes", "LocalSecondaryIndexes"
# What makes no difference here (tags, encryption, a table's class) is not kept.
KEPT = ("TableName", "KeySchema", "AttributeDefinitions", GLOBAL, LOCAL, "BillingMode", "ProvisionedThroughput")
PROJECTIONS = ("ALL", "KEYS_ONLY", "INCLUDE")


def described(request: Request) -> Table:
    """The table that a request asks for. Raises `ValidationException`."""
    require_name(request.get("TableName"))
    _refuse_unoffered(request)
    _require_billing(request)
    description = {key: request[key] for key in KEPT if request.get(key) is not None}
    description |= {"CreationDateTime": round(time.time(), 3), "TableId": str(uuid.uuid4())}
    schemas = [_schema(request)]
    names: list[str] = []
    for kind in (GLOBAL, LOCAL):
        for index in _indexes(request, kind):
            names.append(require_name(index.get("IndexName")))
            schemas.append(_schema(index))
            _require_projection(index)
            if kind == LOCAL:
                _require_local(schemas[0], schemas[-1])
    if len(set(names)) != len(names):
        raise ValidationException("Two secondary indices have the same name")
    _require_definitions(request, schemas)
    return Table.of(description, expiry=None)


def _refuse_unoffered(request: Request) -> None:
    for name in ("DeletionProtectionEnabled", "StreamSpecification"):
        if request.get(name) not in (None, False, {"StreamEnabled": False}):
            raise ValidationException(f"{name} is not offered here")


def _require_billing(request: Request) -> None:
    mode = choice_of(request, "BillingMode", ("PROVISIONED", "PAY_PER_REQUEST"))
    has_throughput = request.get("ProvisionedThroughput") is not None
    if mode == "PAY_PER_REQUEST" and has_throughput:
        raise ValidationException(
            "One or more parameter values were invalid: Neither ReadCapacityUnits nor WriteCapacityUnits can be "
            "specified when BillingMode is PAY_PER_REQUEST"
        )
    if mode != "PAY_PER_REQUEST" and not has_throughput:
        raise ValidationException("No provisioned throughput specified for the table")


def _schema(described: Request) -> list[str]:
    """The names of the keys: the partition's, and the sort key's where there is one."""
    schema = list_of(described, "KeySchema")
    kinds = [element.get("KeyType") for element in schema]
    names = [element.get("AttributeName") for element in schema]
    if kinds not in (["HASH"], ["HASH", "RANGE"]):
        raise ValidationException("Invalid KeySchema: one HASH key, then at most one RANGE key")
    if len(set(names)) != len(names):
        raise ValidationException("Two keys can not have the same name")
    return names


def _indexes(request: Request, kind: str) -> list[Any]:
    indexes = list_of(request, kind)
    if not indexes and request.get(kind) is not None:
        raise ValidationException(f"One or more parameter values were invalid: List of {kind} is empty")
    return indexes


def _require_projection(index: Request) -> None:
    projection = index.get("Projection") or {}
    kind = choice_of(projection, "ProjectionType", PROJECTIONS)
    if kind is None:
        raise ValidationException("Indexes must have a projection specified")
    if (kind == "INCLUDE") != bool(list_of(projection, "NonKeyAttributes")):
        raise ValidationException("NonKeyAttributes are given with the ProjectionType INCLUDE, and only with it")


def _require_local(table: Sequence[str], index: Sequence[str]) -> None:
    if len(table) != 2 or len(index) != 2 or index[0] != table[0]:
        raise ValidationException("Local Secondary indices share the table's HASH key; both have a RANGE key")


def _require_definitions(request: Request, schemas: Sequence[Sequence[str]]) -> None:
    definitions = list_of(request, "AttributeDefinitions")
    defined = [definition.get("AttributeName") for definition in definitions]
    for definition in definitions:
        if choice_of(definition, "AttributeType", ("S", "N", "B")) is None:
            raise ValidationException("An attribute definition has an AttributeType")
    if len(set(defined)) != len(defined):
        raise ValidationException("Cannot have two attributes with the same name")
    if set(defined) != {name for schema in schemas for name in schema}:
        raise ValidationException(
            "One or more parameter values were invalid: AttributeDefinitions must define the attributes of all keys, "
            "and no others"
        )


def expiry_of(request: Request, current: str | None) -> str | None:
    """The attribute by which a table's items expire after an UpdateTimeToLive; None for none."""
    wanted = request.get("TimeToLiveSpecification")
    if wanted is None:
        raise ValidationException("TimeToLiveSpecification cannot be null")
    name = wanted.get("AttributeName")
    if type(name) is not str or not 1 <= len(name) <= 255 or wanted.get("Enabled") is None:
        raise ValidationException("TimeToLiveSpecification has Enabled, and an AttributeName of 1 to 255 characters")
    is_wanted = is_set(wanted, "Enabled")
    if is_wanted == (current is not None):
        raise ValidationException(f"TimeToLive is already {'enabled' if is_wanted else 'disabled'}")
    if current is not None and name != current:
        raise ValidationException("TimeToLive is active on a different AttributeName")
    return name if is_wanted else None
