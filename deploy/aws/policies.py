"""One managed policy for each kind of process: what its access patterns need, and nothing else.

`fanout` reads, and every write is denied to it by name: a statement that somebody adds later cannot change that.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deploy.aws.names import Resource, Resources, arn, ref, sub, table_id
from foundation.kernel.events import TOPICS
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
    Operation.TRANSACT_CHECK: ("ConditionCheckItem",),
    Operation.OFFLINE_SCAN: ("Scan",),
}
"""The action that AWS checks for each operation. A transaction needs those of its items."""
WRITES = ("BatchWriteItem", "DeleteItem", "PutItem", "UpdateItem")
# `/readyz` asks for a table's description.
PROBE = ("DescribeTable",)
MIGRATION = (
    "CreateTable",
    "DescribeContinuousBackups",
    "DescribeTable",
    "DescribeTimeToLive",
    "TagResource",
    "UpdateContinuousBackups",
    "UpdateTable",
    "UpdateTimeToLive",
)
DESCRIBING = ("DescribeContinuousBackups", "DescribeTable", "DescribeTimeToLive")
_TABLES_ARN = "arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table"

Patterns = Iterable[AccessPattern[Any]]
Statement = dict[str, Any]


def actions_needed(patterns: Patterns) -> dict[tuple[str, str | None], set[str]]:
    """The actions on each table or index."""
    needed: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    for pattern in patterns:
        needed[pattern.table, pattern.index_name].update(ACTIONS[pattern.operation])
    return dict(needed)


def policies(tables: Sequence[str], *, web: Patterns, fanout: Patterns, staff: Patterns) -> Resources:
    """The policies of `web`, `fanout`, staff's commands and the migrator, to attach to their task roles."""
    every_table = [arn(table_id(table)) for table in tables]
    return {
        "WebPolicy": _policy(
            "web: item access by its access patterns, SMS",
            [*_item_access(web, tables), _allow(["sns:Publish"], "*", sid="SendSms")],
        ),
        "FanoutPolicy": _policy(
            "fanout: reads of its access patterns, no write to DynamoDB",
            [
                *_item_access(fanout, tables),
                {"Sid": "NoWrites", "Effect": "Deny", "Action": _named(WRITES), "Resource": "*"},
            ],
        ),
        "StaffPolicy": _policy(
            "staff's pages and commands: the access patterns of all apps and offline scans",
            [*_item_access(staff, tables), _allow(_named(DESCRIBING), every_table)],
        ),
        "MigratorPolicy": _policy(
            "migrator: create_tables, check_schema",
            [_allow(_named(MIGRATION), sub(f"{_TABLES_ARN}/${{TablePrefix}}*"))],
        ),
        **kafka_policies(),
    }


def kafka_policies() -> Resources:
    """The same processes at an MSK cluster with IAM; none where no cluster is named."""
    reading, writing = "kafka-cluster:ReadData", "kafka-cluster:WriteData"
    return {
        f"{name}KafkaPolicy": {**_policy(f"{name.lower()}: its topics", _kafka(actions)), "Condition": "HasKafka"}
        for name, actions in {
            "Web": [writing],
            "Fanout": [reading],
            "Staff": [reading, writing],
            "Migrator": ["kafka-cluster:CreateTopic"],
        }.items()
    }


def _policy(description: str, statements: list[Any]) -> Resource:
    return {
        "Type": "AWS::IAM::ManagedPolicy",
        "Properties": {
            "Description": description,
            "PolicyDocument": {"Version": "2012-10-17", "Statement": statements},
        },
    }


def _item_access(patterns: Patterns, tables: Sequence[str]) -> list[Statement]:
    needed = actions_needed(patterns)
    statements = [
        _allow(_named(needed[table, index]), _index_arn(table, index) if index else arn(table_id(table)))
        for table, index in sorted(needed, key=lambda place: (place[0], place[1] or ""))
    ]
    return [*statements, _allow(_named(PROBE), [arn(table_id(table)) for table in tables])]


def _index_arn(table: str, index: str) -> dict[str, str]:
    return sub(f"${{{table_id(table)}.Arn}}/index/{index}")


def _named(actions: Iterable[str]) -> list[str]:
    return [f"dynamodb:{action}" for action in sorted(actions)]


def _allow(actions: Sequence[str], resource: Any, *, sid: str | None = None) -> Statement:
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": resource}
    return statement if sid is None else {"Sid": sid, **statement}


def _kafka(actions: Sequence[str]) -> list[Statement]:
    statements = [
        _allow(["kafka-cluster:Connect", "kafka-cluster:DescribeCluster"], ref("KafkaClusterArn")),
        _allow(["kafka-cluster:DescribeTopic", *actions], [_kafka_arn("topic", topic) for topic in TOPICS]),
    ]
    if "kafka-cluster:ReadData" in actions:
        groups = ["kafka-cluster:AlterGroup", "kafka-cluster:DescribeGroup"]
        statements.append(_allow(groups, [_kafka_arn("group", "*")]))
    if "kafka-cluster:WriteData" in actions:
        statements.append(_allow(["kafka-cluster:WriteDataIdempotently"], ref("KafkaClusterArn")))
    return statements


def _kafka_arn(kind: str, name: str) -> dict[str, Any]:
    """`…:cluster/NAME/UUID` is `…:topic/NAME/UUID/TOPIC` for a topic."""

    def part(number: int) -> dict[str, Any]:
        return {"Fn::Select": [number, {"Fn::Split": [":cluster/", ref("KafkaClusterArn")]}]}

    return {"Fn::Join": ["", [part(0), f":{kind}/", part(1), f"/{name}"]]}
