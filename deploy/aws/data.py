"""Assembles `data.yaml`: tables, scaling, backups, alarms, dashboard, media bucket, policies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from deploy.aws.alarms import Operations, alarms, dashboard
from deploy.aws.names import Resources, arn, ref, sub, table_id
from deploy.aws.policies import Patterns, policies
from deploy.aws.tables import backups, scaling, tables
from foundation.stores.dynamodb.patterns import AccessPattern
from foundation.stores.dynamodb.table import Table

PATH = Path(__file__).parent / "data.yaml"
PREFACE = """\
# The data of a deployment: tables, scaling, backups, alarms, a dashboard, the media bucket and the policies.
# Made by `manage.py aws_template --write` from the models and the access patterns: change those, not this file.
"""


def template(
    models: Sequence[type[Table]], *, web: Sequence[AccessPattern[Any]], fanout: Patterns, staff: Patterns
) -> dict[str, Any]:
    """The template as a document. `web`, `fanout` and `staff` are the access patterns of these processes."""
    names = [model.Meta.table_name for model in models]
    operations = _operations(names, web)
    resources: Resources = {
        **tables(models),
        **scaling(models),
        **backups(models),
        **alarms(models, operations),
        **dashboard(models, operations),
        **_media(),
        **policies(names, web=web, fanout=fanout, staff=staff),
    }
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "Parley: tables, backups, alarms, media bucket, policies",
        "Parameters": {
            "TablePrefix": {"Type": "String", "Default": "", "Description": "TABLE_PREFIX of the processes"},
            "AlarmEmail": {"Type": "String", "Default": "", "Description": "Who is told of alarms, if anybody"},
            "KafkaClusterArn": {"Type": "String", "Default": "", "Description": "An MSK cluster with IAM, if any"},
        },
        "Conditions": {
            "HasAlarmEmail": {"Fn::Not": [{"Fn::Equals": [ref("AlarmEmail"), ""]}]},
            "HasKafka": {"Fn::Not": [{"Fn::Equals": [ref("KafkaClusterArn"), ""]}]},
        },
        "Resources": resources,
        "Outputs": {name: _exported(name, resource) for name, resource in resources.items() if _is_exported(name)},
    }


def _is_exported(name: str) -> bool:
    return name.endswith("Policy") or name in {"MediaBucket", "AlarmTopic"}


def _exported(name: str, resource: dict[str, Any]) -> dict[str, Any]:
    output = {"Value": ref(name), "Export": {"Name": sub(f"${{AWS::StackName}}-{name}")}}
    return {"Condition": resource["Condition"], **output} if "Condition" in resource else output


def render(document: dict[str, Any]) -> str:
    return PREFACE + yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120)


class _Dumper(yaml.SafeDumper):
    """Writes shared parts out: CloudFormation does not read YAML's aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _operations(names: Sequence[str], patterns: Patterns) -> Operations:
    """CloudWatch's names: a transaction's items are reported under TransactWriteItems."""
    used: dict[str, set[str]] = {name: set() for name in names}
    for pattern in patterns:
        used[pattern.table].add(pattern.operation.value.partition(" ")[0])
    return {name: sorted(operations) for name, operations in used.items()}


def _media() -> Resources:
    """Uploads are emptied after a day; what no message has claimed after two."""
    return {
        "MediaBucket": {
            "Type": "AWS::S3::Bucket",
            "DeletionPolicy": "Retain",
            "UpdateReplacePolicy": "Retain",
            "Properties": {
                "PublicAccessBlockConfiguration": {
                    "BlockPublicAcls": True,
                    "BlockPublicPolicy": True,
                    "IgnorePublicAcls": True,
                    "RestrictPublicBuckets": True,
                },
                "BucketEncryption": {
                    "ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
                },
                "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
                "LifecycleConfiguration": {
                    "Rules": [
                        {
                            "Id": "uploads",
                            "Status": "Enabled",
                            "Prefix": "uploads/",
                            "ExpirationInDays": 1,
                            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
                        },
                        {
                            "Id": "pending",
                            "Status": "Enabled",
                            "Prefix": "media/",
                            "TagFilters": [{"Key": "state", "Value": "pending"}],
                            "ExpirationInDays": 2,
                        },
                    ]
                },
            },
        },
        "MediaBucketTls": {
            "Type": "AWS::S3::BucketPolicy",
            "Properties": {
                "Bucket": ref("MediaBucket"),
                "PolicyDocument": {
                    "Version": "2012-10-17",
                    "Statement": [
                        {
                            "Sid": "OnlyTls",
                            "Effect": "Deny",
                            "Principal": "*",
                            "Action": "s3:*",
                            "Resource": [arn("MediaBucket"), {"Fn::Sub": "${MediaBucket.Arn}/*"}],
                            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                        }
                    ],
                },
            },
        },
    }


def schema_of(document: dict[str, Any], table: str) -> dict[str, Any]:
    """A table's properties in the template."""
    properties: dict[str, Any] = document["Resources"][table_id(table)]["Properties"]
    return properties
