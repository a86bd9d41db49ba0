"""The eight tables as they should be, as they are, and the difference.

The commands `create_tables` and `check_schema` use it.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from foundation.stores.dynamodb.database import Database
from foundation.stores.dynamodb.table import ON_DEMAND, PROVISIONED, Table, index_settings, table_description
from foundation.stores.errors import OperationUnknown, StoreUnavailable, TableBusy, TableMissing

Capacity = tuple[int, int]
"""Read and write units."""
Capacities = Mapping[str, Capacity | None]
"""By table, its indexes alike; None for on demand. A table that is not in it has the capacity of its model."""
MODEL_CAPACITIES: Capacities = {}

TTL_ATTRIBUTE = "ttl"
ACTIVE_WITHIN = 120.0
POLL_INTERVAL = 0.2


@dataclass(frozen=True, slots=True)
class IndexSchema:
    keys: tuple[tuple[str, str], ...]
    projection: str


@dataclass(frozen=True, slots=True)
class TableSchema:
    """What makes two tables the same: keys, indexes, capacity mode, expiry and recovery.

    A table on demand may stand in for a provisioned one, which it serves as well; the units are the operator's.
    `point_in_time_recovery` is None where the engine has no such feature; that alone is no difference.
    """

    keys: tuple[tuple[str, str], ...]
    attributes: tuple[tuple[str, str], ...]
    indexes: dict[str, IndexSchema]
    billing_mode: str
    ttl_attribute: str | None
    point_in_time_recovery: bool | None

    def differences(self, live: "TableSchema") -> Iterator[str]:
        """One readable line for each way in which the live table is not this one."""
        fields = ["keys", "attributes", "ttl_attribute"]
        if live.billing_mode != ON_DEMAND:
            fields.append("billing_mode")
        for field in fields:
            wanted, found = getattr(self, field), getattr(live, field)
            if wanted != found:
                yield f"{field.replace('_', ' ')}: expected {_text(wanted)}, found {_text(found)}"
        if live.point_in_time_recovery not in (None, self.point_in_time_recovery):
            yield f"point-in-time recovery: expected {_text(self.point_in_time_recovery)}, found the opposite"
        for name in sorted(self.indexes.keys() - live.indexes.keys()):
            yield f"index {name}: missing"
        for name in sorted(live.indexes.keys() - self.indexes.keys()):
            yield f"index {name}: not in the model"
        for name in sorted(self.indexes.keys() & live.indexes.keys()):
            for field in ("keys", "projection"):
                wanted, found = getattr(self.indexes[name], field), getattr(live.indexes[name], field)
                if wanted != found:
                    yield f"index {name} {field}: expected {_text(wanted)}, found {_text(found)}"


def expected(table: type[Table], capacities: Capacities = MODEL_CAPACITIES) -> TableSchema:
    """The schema that a model declares."""
    ttl = TTL_ATTRIBUTE if TTL_ATTRIBUTE in table.get_attributes() else None
    return _schema(
        table_description(table, table.Meta.table_name),
        billing_mode=ON_DEMAND if _capacity(table, capacities) is None else PROVISIONED,
        ttl_attribute=ttl,
        point_in_time_recovery=table.point_in_time_recovery,
    )


def live(database: Database, table: type[Table], *, with_features: bool = True) -> TableSchema | None:
    """The schema of the table that exists, or None. Expiry and recovery need rights of their own."""
    name = database.table_name(table)
    call = database.call
    try:
        description = call("DescribeTable", {"TableName": name})["Table"]
    except TableMissing:
        return None
    ttl = call("DescribeTimeToLive", {"TableName": name}).get("TimeToLiveDescription", {}) if with_features else {}
    return _schema(
        description,
        billing_mode=description.get("BillingModeSummary", {}).get("BillingMode", PROVISIONED),
        ttl_attribute=ttl.get("AttributeName") if ttl.get("TimeToLiveStatus") in {"ENABLED", "ENABLING"} else None,
        point_in_time_recovery=_recovery(database, name) if with_features else None,
    )


def of_template(properties: Mapping[str, Any]) -> TableSchema:
    """The schema of a table's properties in a CloudFormation template."""
    ttl = properties.get("TimeToLiveSpecification", {})
    recovery = properties.get("PointInTimeRecoverySpecification", {})
    return _schema(
        properties,
        billing_mode=properties.get("BillingMode", PROVISIONED),
        ttl_attribute=ttl.get("AttributeName") if ttl.get("Enabled") else None,
        point_in_time_recovery=bool(recovery.get("PointInTimeRecoveryEnabled")),
    )


def drift(
    database: Database,
    tables: Sequence[type[Table]],
    *,
    capacities: Capacities = MODEL_CAPACITIES,
    with_features: bool = True,
) -> Iterator[str]:
    """Compare models with live tables, also their expiry and recovery if asked to; yields nothing when they agree."""
    for table in tables:
        found, wanted = live(database, table, with_features=with_features), expected(table, capacities)
        if found is None:
            yield f"{database.table_name(table)}: the table is missing"
            continue
        if not with_features:
            found = replace(found, ttl_attribute=wanted.ttl_attribute)
        for line in wanted.differences(found):
            yield f"{database.table_name(table)}: {line}"


def create_missing(
    database: Database,
    tables: Sequence[type[Table]],
    *,
    report: Callable[[str], None],
    capacities: Capacities = MODEL_CAPACITIES,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Create the tables that are not there, wait until they are active, then turn on expiry and recovery.

    Safe to repeat, also while another run is at it. An existing table's keys and capacity are never changed:
    `check_schema` reports those.
    """
    for table in tables:
        _create(database, table, capacities, report)
    for table in tables:
        _wait_until_active(database, database.table_name(table), sleep)
    for table in tables:
        found = live(database, table)
        if found is not None:
            _turn_on_features(database, table, found, report, sleep)


def _create(database: Database, table: type[Table], capacities: Capacities, report: Callable[[str], None]) -> None:
    name = database.table_name(table)
    try:
        database.call("DescribeTable", {"TableName": name})
    except TableMissing:
        try:
            database.call("CreateTable", _create_request(table, name, capacities))
        except TableBusy:
            # Another run was quicker.
            report(f"{name}: exists")
        else:
            report(f"{name}: created")
    else:
        report(f"{name}: exists")


def _create_request(table: type[Table], name: str, capacities: Capacities = MODEL_CAPACITIES) -> dict[str, Any]:
    request = table_description(table, name)
    capacity = _capacity(table, capacities)
    request["BillingMode"] = ON_DEMAND if capacity is None else PROVISIONED
    if capacity is not None:
        request["ProvisionedThroughput"] = _throughput(capacity)
        is_set = table.Meta.table_name in capacities
        for description, meta in zip(request["GlobalSecondaryIndexes"], index_settings(table), strict=True):
            description["ProvisionedThroughput"] = _throughput(capacity if is_set else _units(meta))
    if not request["GlobalSecondaryIndexes"]:
        del request["GlobalSecondaryIndexes"]
    return request


def _capacity(table: type[Table], capacities: Capacities) -> Capacity | None:
    own = None if table.Meta.billing_mode == ON_DEMAND else _units(table.Meta)
    return capacities.get(table.Meta.table_name, own)


def _units(meta: Any) -> Capacity:
    return meta.read_capacity_units, meta.write_capacity_units


def _throughput(capacity: Capacity) -> dict[str, int]:
    read, write = capacity
    return {"ReadCapacityUnits": read, "WriteCapacityUnits": write}


def _wait_until_active(database: Database, name: str, sleep: Callable[[float], None]) -> None:
    deadline = time.monotonic() + ACTIVE_WITHIN
    while time.monotonic() < deadline:
        if _is_active(database, name):
            return
        sleep(POLL_INTERVAL)
    raise StoreUnavailable(f"table {name} did not become active within {ACTIVE_WITHIN:.0f} s")


def _is_active(database: Database, name: str) -> bool:
    try:
        description = database.call("DescribeTable", {"TableName": name})["Table"]
    except TableMissing:
        # The description of a table may follow its creation by some seconds.
        return False
    indexes = description.get("GlobalSecondaryIndexes", [])
    return all(state == "ACTIVE" for state in [description["TableStatus"], *(i["IndexStatus"] for i in indexes)])


def _change(database: Database, operation: str, request: dict[str, Any], sleep: Callable[[float], None]) -> None:
    """Change a table as soon as it lets itself be changed: a new one is active before its backups are."""
    deadline = time.monotonic() + ACTIVE_WITHIN
    while True:
        try:
            database.call(operation, request)
        except TableBusy:
            if time.monotonic() > deadline:
                raise
            sleep(POLL_INTERVAL)
        else:
            return


def _turn_on_features(
    database: Database,
    table: type[Table],
    found: TableSchema,
    report: Callable[[str], None],
    sleep: Callable[[float], None],
) -> None:
    name, wanted = database.table_name(table), expected(table)
    if wanted.ttl_attribute and found.ttl_attribute != wanted.ttl_attribute:
        specification = {"AttributeName": wanted.ttl_attribute, "Enabled": True}
        _change(database, "UpdateTimeToLive", {"TableName": name, "TimeToLiveSpecification": specification}, sleep)
        report(f"{name}: expiry turned on")
    if wanted.point_in_time_recovery and found.point_in_time_recovery is False:
        recovery = {"PointInTimeRecoveryEnabled": True}
        request = {"TableName": name, "PointInTimeRecoverySpecification": recovery}
        _change(database, "UpdateContinuousBackups", request, sleep)
        report(f"{name}: point-in-time recovery turned on")


def _recovery(database: Database, name: str) -> bool | None:
    try:
        answer = database.call("DescribeContinuousBackups", {"TableName": name})
    except OperationUnknown:
        return None
    recovery = answer["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
    return bool(recovery.get("PointInTimeRecoveryStatus") == "ENABLED")


def _schema(
    description: Mapping[str, Any], *, billing_mode: str, ttl_attribute: str | None, point_in_time_recovery: bool | None
) -> TableSchema:
    return TableSchema(
        keys=_keys(description),
        attributes=tuple(
            sorted((item["AttributeName"], item["AttributeType"]) for item in description["AttributeDefinitions"])
        ),
        indexes={
            index["IndexName"]: IndexSchema(keys=_keys(index), projection=index["Projection"]["ProjectionType"])
            for index in description.get("GlobalSecondaryIndexes") or []
        },
        billing_mode=billing_mode,
        ttl_attribute=ttl_attribute,
        point_in_time_recovery=point_in_time_recovery,
    )


def _keys(description: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((item["KeyType"], item["AttributeName"]) for item in description["KeySchema"]))


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(f"{second} {first}" for first, second in value)
    return str(value)
