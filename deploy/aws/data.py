"""Assembles `data.yaml`: tables, scaling, backups, alarms, dashboard, media bucket, policies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from deploy.aws.alarms import Operations, alarms, dashboard
from deploy.aws.media import media
from deploy.aws.names import Resources, arn, ref, sub
from deploy.aws.policies import Access, Patterns, policies
from deploy.aws.tables import backups, scaling, tables
from foundation.stores.dynamodb.table import Table

PATH = Path(__file__).parent / "data.yaml"
PREFACE = """\
# The data of a deployment: tables, scaling, backups, alarms, a dashboard, the media bucket and the policies.
# Made by `manage.py aws_template --write` from the models and the access patterns: change those, not this file.
"""


def template(models: Sequence[type[Table]], access: Access) -> dict[str, Any]:
    """The template as a document."""
    names = [model.Meta.table_name for model in models]
    operations = _operations(names, access.web)
    resources: Resources = {
        **tables(models),
        **scaling(models),
        **backups(models),
        **alarms(models, operations),
        **dashboard(models, operations),
        **media(),
        **policies(names, access),
    }
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "Parley: tables, backups, alarms, media bucket, policies",
        "Parameters": {
            "TablePrefix": {"Type": "String", "Default": "", "Description": "TABLE_PREFIX of the processes"},
            "AlarmEmail": {"Type": "String", "Default": "", "Description": "Who is told of alarms, if anybody"},
            "KafkaClusterName": {
                "Type": "String",
                "Default": "parley-kafka",
                "Description": "The MSK cluster of these policies, which need not exist yet",
            },
        },
        "Conditions": {
            "HasAlarmEmail": {"Fn::Not": [{"Fn::Equals": [ref("AlarmEmail"), ""]}]},
        },
        "Resources": resources,
        "Outputs": {
            **{name: _exported(name, ref(name)) for name in resources if _is_exported(name)},
            "BackupRole": _exported("BackupRole", arn("BackupRole")),
            "KafkaClusterName": _exported("KafkaClusterName", ref("KafkaClusterName")),
        },
    }


def _is_exported(name: str) -> bool:
    return name.endswith("Policy") or name in {"MediaBucket", "AlarmTopic"}


def _exported(name: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"Value": value, "Export": {"Name": sub(f"${{AWS::StackName}}-{name}")}}


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
