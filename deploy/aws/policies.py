"""One managed policy for each kind of process: what its access patterns need, and nothing else.

`fanout` reads, and every write is denied to it by name: a statement that somebody adds later cannot change that.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.aws.kafka import kafka_policies
from deploy.aws.names import Resources, allow, arn, policy, sub, table_id
from foundation.stores.dynamodb.patterns import AccessPattern, Operation

ACTIONS: Mapping[Operation, tuple[str, ...]] = {
    Operation.GET: ("GetItem",),
    Operation.QUERY: ("Query",),
    Operation.PUT: ("PutItem",),
    Operation.UPDATE: ("UpdateItem",),
    Operation.DELETE: ("DeleteItem",),
    Operation.BATCH_GET: ("BatchGetItem",),
    Operation.BATCH_PUT: ("BatchWriteItem",),
    Operation.BATCH_DELETE: ("BatchWriteItem",),
    Operation.TRANSACT_PUT: ("PutItem",),
    Operation.TRANSACT_UPDATE: ("UpdateItem",),
    Operation.TRANSACT_DELETE: ("DeleteItem",),
    Operation.OFFLINE_SCAN: ("Scan",),
}
"""The action that AWS checks for each operation. A transaction needs those of its items."""
WRITES = (
    "BatchWriteItem",
    "DeleteItem",
    "PartiQLDelete",
    "PartiQLInsert",
    "PartiQLUpdate",
    "PutItem",
    "UpdateItem",
)
# `/readyz` asks for a table's description.
PROBE = ("DescribeTable",)
MIGRATION = (
    "CreateTable",
    "DescribeContinuousBackups",
    "DescribeTable",
    "DescribeTimeToLive",
    "UpdateContinuousBackups",
    "UpdateTimeToLive",
)
DESCRIBING = ("DescribeContinuousBackups", "DescribeTable", "DescribeTimeToLive")
RESTORED = "restored_"
"""The prefix of tables that a restore makes, before that of the others. The policies reach both."""
_TABLES_ARN = "arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table"

Patterns = Iterable[AccessPattern[Any]]
Statement = dict[str, Any]

SEND_SMS: Statement = {
    "Sid": "SendSms",
    "Effect": "Allow",
    "Action": ["sns:Publish"],
    "NotResource": sub("arn:${AWS::Partition}:sns:*:*:*"),
}
"""A phone number has no ARN. Topics have, and are left out: their readers are not `web`'s to reach."""


@dataclass(frozen=True, slots=True)
class Access:
    """The access patterns of each kind of process. Those of `staff` are all there are."""

    web: Sequence[AccessPattern[Any]]
    fanout: Sequence[AccessPattern[Any]]
    watch: Sequence[AccessPattern[Any]]
    staff: Sequence[AccessPattern[Any]]


def actions_needed(patterns: Patterns) -> dict[tuple[str, str | None], set[str]]:
    """The actions on each table or index."""
    needed: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    for pattern in patterns:
        needed[pattern.table, pattern.index_name].update(ACTIONS[pattern.operation])
    return dict(needed)


def policies(tables: Sequence[str], access: Access) -> Resources:
    """The policies of `web`, `fanout`, the watch, staff's commands and the migrator, to attach to their task roles."""
    every_table = [each for table in tables for each in _arns(table)]
    probe, no_writes = allow(_named(PROBE), every_table), _deny(_named(WRITES))
    return {
        "WebPolicy": policy("web: item access by its access patterns, SMS", [*_items(access.web), probe, SEND_SMS]),
        "FanoutPolicy": policy(
            "fanout: reads of its access patterns, no write to DynamoDB", [*_items(access.fanout), probe, no_writes]
        ),
        "WatchPolicy": policy(
            "reconcile --watch: reads of its access patterns, no write to DynamoDB",
            [*_items(access.watch), probe, no_writes],
        ),
        "StaffPolicy": policy(
            "staff's commands: the access patterns of all apps and offline scans",
            [*_items(access.staff), allow(_named(DESCRIBING), every_table)],
        ),
        "MigratorPolicy": policy("migrator: create_tables, check_schema", [allow(_named(MIGRATION), every_table)]),
        **kafka_policies(),
    }


def _items(patterns: Patterns) -> list[Statement]:
    needed = actions_needed(patterns)
    return [
        allow(_named(needed[table, index]), _arns(table, index))
        for table, index in sorted(needed, key=lambda place: (place[0], place[1] or ""))
    ]


def _deny(actions: Sequence[str]) -> Statement:
    return {"Sid": "NoWrites", "Effect": "Deny", "Action": list(actions), "Resource": "*"}


def _arns(table: str, index: str | None = None) -> list[Any]:
    """Of a table or its index, and of the same after a restore."""
    restored = f"{_TABLES_ARN}/{RESTORED}${{TablePrefix}}{table}"
    if index is None:
        return [arn(table_id(table)), sub(restored)]
    return [sub(f"${{{table_id(table)}.Arn}}/index/{index}"), sub(f"{restored}/index/{index}")]


def _named(actions: Iterable[str]) -> list[str]:
    return [f"dynamodb:{action}" for action in sorted(actions)]
