"""The validation of CreateTable and UpdateTimeToLive."""

import time
import uuid
from collections.abc import Sequence
from typing import Any

from engines.dynamolite.errors import ValidationException
from engines.dynamolite.requests import Request, read_bool, read_choice, read_list, require_name
from engines.dynamolite.schema import TableSchema

GLOBAL, LOCAL = "GlobalSecondaryIndexes", "LocalSecondaryIndexes"
# Other parameters (tags, encryption, the table class) have no effect here.
STORED = ("TableName", "KeySchema", "AttributeDefinitions", GLOBAL, LOCAL, "BillingMode", "ProvisionedThroughput")
PROJECTIONS = ("ALL", "KEYS_ONLY", "INCLUDE")


def read_schema(request: Request) -> TableSchema:
    """Return the schema of a CreateTable request. Raises `ValidationException`."""
    require_name(request.get("TableName"))
    _reject_unsupported(request)
    _require_billing(request)
    description = {key: request[key] for key in STORED if request.get(key) is not None}
    description |= {"CreationDateTime": round(time.time(), 3), "TableId": str(uuid.uuid4())}
    key_schemas = [_key_names(request)]
    names: list[str] = []
    for kind in (GLOBAL, LOCAL):
        for index in _indexes(request, kind):
            names.append(require_name(index.get("IndexName")))
            key_schemas.append(_key_names(index))
            _require_projection(index)
            if kind == LOCAL:
                _require_local(key_schemas[0], key_schemas[-1])
    if len(set(names)) != len(names):
        raise ValidationException("Two secondary indices have the same name")
    _require_definitions(request, key_schemas)
    return TableSchema.parse(description, ttl_attribute=None)


def _reject_unsupported(request: Request) -> None:
    for name in ("DeletionProtectionEnabled", "StreamSpecification"):
        if request.get(name) not in (None, False, {"StreamEnabled": False}):
            raise ValidationException(f"{name} is not offered here")


def _require_billing(request: Request) -> None:
    mode = read_choice(request, "BillingMode", ("PROVISIONED", "PAY_PER_REQUEST"))
    has_throughput = request.get("ProvisionedThroughput") is not None
    if mode == "PAY_PER_REQUEST" and has_throughput:
        raise ValidationException(
            "One or more parameter values were invalid: Neither ReadCapacityUnits nor WriteCapacityUnits can be "
            "specified when BillingMode is PAY_PER_REQUEST"
        )
    if mode != "PAY_PER_REQUEST" and not has_throughput:
        raise ValidationException("No provisioned throughput specified for the table")


def _key_names(description: Request) -> list[str]:
    """Return the name of the partition key, and of the sort key if there is one."""
    schema = read_list(description, "KeySchema")
    kinds = [element.get("KeyType") for element in schema]
    names = [element.get("AttributeName") for element in schema]
    if kinds not in (["HASH"], ["HASH", "RANGE"]):
        raise ValidationException("Invalid KeySchema: one HASH key, then at most one RANGE key")
    if len(set(names)) != len(names):
        raise ValidationException("Two keys can not have the same name")
    return names


def _indexes(request: Request, kind: str) -> list[Any]:
    indexes = read_list(request, kind)
    if not indexes and request.get(kind) is not None:
        raise ValidationException(f"One or more parameter values were invalid: List of {kind} is empty")
    return indexes


def _require_projection(index: Request) -> None:
    projection = index.get("Projection") or {}
    kind = read_choice(projection, "ProjectionType", PROJECTIONS)
    if kind is None:
        raise ValidationException("Indexes must have a projection specified")
    if (kind == "INCLUDE") != bool(read_list(projection, "NonKeyAttributes")):
        raise ValidationException("NonKeyAttributes are given with the ProjectionType INCLUDE, and only with it")


def _require_local(table: Sequence[str], index: Sequence[str]) -> None:
    if len(table) != 2 or len(index) != 2 or index[0] != table[0]:
        raise ValidationException("Local Secondary indices share the table's HASH key; both have a RANGE key")


def _require_definitions(request: Request, key_schemas: Sequence[Sequence[str]]) -> None:
    definitions = read_list(request, "AttributeDefinitions")
    defined = [definition.get("AttributeName") for definition in definitions]
    for definition in definitions:
        if read_choice(definition, "AttributeType", ("S", "N", "B")) is None:
            raise ValidationException("An attribute definition has an AttributeType")
    if len(set(defined)) != len(defined):
        raise ValidationException("Cannot have two attributes with the same name")
    if set(defined) != {name for names in key_schemas for name in names}:
        raise ValidationException(
            "One or more parameter values were invalid: AttributeDefinitions must define the attributes of all keys, "
            "and no others"
        )


def read_ttl_attribute(request: Request, current: str | None) -> str | None:
    """Return the TTL attribute after an UpdateTimeToLive; None if TTL is off."""
    specification = request.get("TimeToLiveSpecification")
    if specification is None:
        raise ValidationException("TimeToLiveSpecification cannot be null")
    name = specification.get("AttributeName")
    if type(name) is not str or not 1 <= len(name) <= 255 or specification.get("Enabled") is None:
        raise ValidationException("TimeToLiveSpecification has Enabled, and an AttributeName of 1 to 255 characters")
    is_enabled = read_bool(specification, "Enabled")
    if is_enabled == (current is not None):
        raise ValidationException(f"TimeToLive is already {'enabled' if is_enabled else 'disabled'}")
    if current is not None and name != current:
        raise ValidationException("TimeToLive is active on a different AttributeName")
    return name if is_enabled else None
