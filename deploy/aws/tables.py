"""The eight tables as resources: keys and indexes of the models, capacity, TTL, recovery, scaling and backups."""

from collections.abc import Iterator, Sequence
from typing import Any

from deploy.aws.names import Resource, Resources, arn, logical, ref, sub, table_id
from foundation.stores.dynamodb.schema import TTL_ATTRIBUTE
from foundation.stores.dynamodb.table import ON_DEMAND, Table, index_settings, table_description

RECOVERY_DAYS = 35
BACKUP_DAYS = 90
EPHEMERAL = ("idempotency_keys", "sessions")
"""Not backed up: keys expire after a week, and people log in again."""
SCALING_TARGET = 70.0
SCALING_FACTOR = 20
"""A provisioned table scales from its model's units up to this many times as much."""


def tables(models: Sequence[type[Table]]) -> Resources:
    return {table_id(model.Meta.table_name): _table(model) for model in models}


def is_provisioned(model: type[Table]) -> bool:
    return model.Meta.billing_mode != ON_DEMAND


def _table(model: type[Table]) -> Resource:
    description = table_description(model, model.Meta.table_name)
    indexes = description["GlobalSecondaryIndexes"]
    properties: dict[str, Any] = {
        "TableName": sub("${TablePrefix}" + model.Meta.table_name),
        "BillingMode": model.Meta.billing_mode,
        "AttributeDefinitions": description["AttributeDefinitions"],
        "KeySchema": description["KeySchema"],
        "DeletionProtectionEnabled": True,
        "PointInTimeRecoverySpecification": {
            "PointInTimeRecoveryEnabled": model.point_in_time_recovery,
            "RecoveryPeriodInDays": RECOVERY_DAYS,
        },
        "SSESpecification": {"SSEEnabled": True},
    }
    if indexes:
        properties["GlobalSecondaryIndexes"] = indexes
    if is_provisioned(model):
        properties["ProvisionedThroughput"] = _throughput(model.Meta)
        for index, settings in zip(indexes, index_settings(model), strict=True):
            index["ProvisionedThroughput"] = _throughput(settings)
    if TTL_ATTRIBUTE in model.get_attributes():
        properties["TimeToLiveSpecification"] = {"AttributeName": TTL_ATTRIBUTE, "Enabled": True}
    return {
        "Type": "AWS::DynamoDB::Table",
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": properties,
    }


def _throughput(settings: Any) -> dict[str, int]:
    return {"ReadCapacityUnits": settings.read_capacity_units, "WriteCapacityUnits": settings.write_capacity_units}


def scaling(models: Sequence[type[Table]]) -> Resources:
    """Targets and policies for reads and writes of each provisioned table and of each of its indexes."""
    resources: Resources = {}
    for model in filter(is_provisioned, models):
        for name, path, kind, settings in _scalable(model):
            for direction, units in (("Read", settings.read_capacity_units), ("Write", settings.write_capacity_units)):
                resources |= _scaled(name, path, kind, direction, units)
    return resources


def _scalable(model: type[Table]) -> Iterator[tuple[str, str, str, Any]]:
    table = table_id(model.Meta.table_name)
    yield table, f"table/${{{table}}}", "table", model.Meta
    for settings in index_settings(model):
        index = settings.index_name
        yield f"{table}{logical(index)}", f"table/${{{table}}}/index/{index}", "index", settings


def _scaled(name: str, path: str, kind: str, direction: str, units: int) -> Resources:
    target = f"{name}{direction}Target"
    return {
        target: {
            "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
            "Properties": {
                "ServiceNamespace": "dynamodb",
                "ResourceId": sub(path),
                "ScalableDimension": f"dynamodb:{kind}:{direction}CapacityUnits",
                "MinCapacity": units,
                "MaxCapacity": units * SCALING_FACTOR,
            },
        },
        f"{name}{direction}Scaling": {
            "Type": "AWS::ApplicationAutoScaling::ScalingPolicy",
            "Properties": {
                "PolicyName": f"{name}{direction}",
                "PolicyType": "TargetTrackingScaling",
                "ScalingTargetId": ref(target),
                "TargetTrackingScalingPolicyConfiguration": {
                    "TargetValue": SCALING_TARGET,
                    "PredefinedMetricSpecification": {
                        "PredefinedMetricType": f"DynamoDB{direction}CapacityUtilization"
                    },
                },
            },
        },
    }


def backups(models: Sequence[type[Table]]) -> Resources:
    """Daily backups, kept for 90 days, of every table that cannot be rebuilt."""
    kept = [model.Meta.table_name for model in models if model.Meta.table_name not in EPHEMERAL]
    rule = {
        "RuleName": "daily",
        "TargetBackupVault": ref("BackupVault"),
        "ScheduleExpression": "cron(0 3 * * ? *)",
        "StartWindowMinutes": 60,
        "CompletionWindowMinutes": 480,
        "Lifecycle": {"DeleteAfterDays": BACKUP_DAYS},
    }
    assume = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "backup.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ],
    }
    return {
        "BackupVault": {
            "Type": "AWS::Backup::BackupVault",
            "DeletionPolicy": "Retain",
            "UpdateReplacePolicy": "Retain",
            "Properties": {"BackupVaultName": sub("${TablePrefix}parley")},
        },
        "BackupRole": {
            "Type": "AWS::IAM::Role",
            "Properties": {
                "AssumeRolePolicyDocument": assume,
                "ManagedPolicyArns": [
                    sub(f"arn:${{AWS::Partition}}:iam::aws:policy/service-role/AWSBackupServiceRolePolicyFor{kind}")
                    for kind in ("Backup", "Restores")
                ],
            },
        },
        "BackupPlan": {
            "Type": "AWS::Backup::BackupPlan",
            "Properties": {
                "BackupPlan": {"BackupPlanName": sub("${TablePrefix}parley-daily"), "BackupPlanRule": [rule]}
            },
        },
        "BackupSelection": {
            "Type": "AWS::Backup::BackupSelection",
            "Properties": {
                "BackupPlanId": ref("BackupPlan"),
                "BackupSelection": {
                    "SelectionName": "tables",
                    "IamRoleArn": arn("BackupRole"),
                    "Resources": [arn(table_id(name)) for name in kept],
                },
            },
        },
    }
