"""`deploy/aws/data.yaml`: what an operator deploys is what the models and access patterns say."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.wiring.commands import TABLES
from deploy.aws import data
from deploy.aws.names import table_id
from deploy.aws.policies import ACTIONS
from foundation.stores.dynamodb.patterns import AccessPattern, Operation, declared
from foundation.stores.dynamodb.table import PROVISIONED
from staff.services.access import FANOUT_PATTERNS, WATCH_PATTERNS

NAMES = [table.Meta.table_name for table in TABLES]
PROVISIONED_TABLES = [table for table in TABLES if table.Meta.billing_mode == PROVISIONED]
SERVICES = data.PATH.with_name("services.yaml")
ENGINES_PAGE = (data.PATH.parents[2] / "docs/engines.md").read_text()
PROCESSES = ("Web", "Fanout", "Watch", "Staff", "Migrator")

Template = dict[str, Any]


def online() -> Iterator[AccessPattern[Any]]:
    """The access patterns of processes that serve people, without those that tests declare."""
    return (
        pattern
        for pattern in declared()
        if pattern.operation is not Operation.OFFLINE_SCAN and not pattern.name.startswith("test: ")
    )


@pytest.fixture(scope="module")
def template() -> Template:
    document: Template = yaml.safe_load(data.PATH.read_text())
    return document


def of_type(template: Template, kind: str) -> dict[str, Any]:
    return {
        name: resource["Properties"] for name, resource in template["Resources"].items() if resource["Type"] == kind
    }


class TestTheFile:
    def test_it_is_what_the_code_makes(self) -> None:
        """In a process of its own, where no test declares access patterns."""
        command = [sys.executable, "manage.py", "aws_template", "--check"]
        result = subprocess.run(
            command, cwd=data.PATH.parents[2], capture_output=True, text=True, timeout=60, check=False
        )
        assert (result.returncode, result.stderr) == (0, "")

    @pytest.mark.parametrize("path", [data.PATH, SERVICES], ids=lambda path: path.name)
    def test_cfn_lint_finds_nothing(self, path: Path) -> None:
        program = Path(sys.executable).with_name("cfn-lint")
        result = subprocess.run([program, path], capture_output=True, text=True, timeout=100, check=False)
        assert (result.returncode, result.stdout) == (0, "")

    def test_services_import_what_data_exports(self, template: Template) -> None:
        imported = {name for name in template["Outputs"] if f"-{name}" in SERVICES.read_text()}
        assert imported == {
            "KafkaClusterName",
            *(f"{name}{kind}" for name in PROCESSES for kind in ("Policy", "KafkaPolicy")),
        }


class TestTables:
    @pytest.mark.parametrize("name", NAMES)
    def test_a_table_survives_its_stack_and_can_be_recovered(self, template: Template, name: str) -> None:
        resource = template["Resources"][table_id(name)]
        assert resource["DeletionPolicy"] == resource["UpdateReplacePolicy"] == "Retain"
        properties = resource["Properties"]
        assert properties["DeletionProtectionEnabled"] is True
        assert properties["PointInTimeRecoverySpecification"] == {
            "PointInTimeRecoveryEnabled": True,
            "RecoveryPeriodInDays": 35,
        }

    def test_only_keys_and_sessions_expire(self, template: Template) -> None:
        tables = of_type(template, "AWS::DynamoDB::Table")
        expiring = {name for name, properties in tables.items() if "TimeToLiveSpecification" in properties}
        assert expiring == {table_id("idempotency_keys"), table_id("sessions")}

    def test_provisioned_tables_and_their_indexes_scale(self, template: Template) -> None:
        targets = of_type(template, "AWS::ApplicationAutoScaling::ScalableTarget")
        scaled = {(target["ResourceId"]["Fn::Sub"], target["ScalableDimension"]) for target in targets.values()}
        for table in PROVISIONED_TABLES:
            place = f"table/${{{table_id(table.Meta.table_name)}}}"
            assert (place, "dynamodb:table:ReadCapacityUnits") in scaled
            assert (place, "dynamodb:table:WriteCapacityUnits") in scaled
        indexes = {place for place, dimension in scaled if dimension == "dynamodb:index:ReadCapacityUnits"}
        assert len(indexes) == 3
        policies = of_type(template, "AWS::ApplicationAutoScaling::ScalingPolicy")
        assert {policy["ScalingTargetId"]["Ref"] for policy in policies.values()} == targets.keys()


class TestBackups:
    def test_six_tables_are_backed_up_daily_and_kept_for_90_days(self, template: Template) -> None:
        [selection] = of_type(template, "AWS::Backup::BackupSelection").values()
        chosen = {resource["Fn::GetAtt"][0] for resource in selection["BackupSelection"]["Resources"]}
        assert chosen == {table_id(name) for name in NAMES if name not in {"idempotency_keys", "sessions"}}
        [plan] = of_type(template, "AWS::Backup::BackupPlan").values()
        [rule] = plan["BackupPlan"]["BackupPlanRule"]
        assert rule["ScheduleExpression"] == "cron(0 3 * * ? *)"
        assert rule["Lifecycle"] == {"DeleteAfterDays": 90}

    def test_the_role_of_backups_restores_them_too(self, template: Template) -> None:
        role = template["Resources"]["BackupRole"]["Properties"]
        names = {policy["Fn::Sub"].rpartition("/")[2] for policy in role["ManagedPolicyArns"]}
        assert names == {"AWSBackupServiceRolePolicyForBackup", "AWSBackupServiceRolePolicyForRestores"}
        assert template["Outputs"]["BackupRole"]["Value"] == {"Fn::GetAtt": ["BackupRole", "Arn"]}


class TestAlarms:
    @pytest.mark.parametrize("name", NAMES)
    def test_a_table_has_alarms_for_capacity_throttling_and_latency(self, template: Template, name: str) -> None:
        alarms, table = of_type(template, "AWS::CloudWatch::Alarm"), table_id(name)
        for direction in ("Read", "Write"):
            assert alarms[f"{table}{direction}CapacityAlarm"]["Threshold"] == 80
        assert alarms[f"{table}ThrottlingAlarm"]["Threshold"] == 0
        assert alarms[f"{table}LatencyAlarm"]["Threshold"] == 100

    @pytest.mark.parametrize("name", NAMES)
    def test_throttling_is_watched_for_every_operation_that_is_used(self, template: Template, name: str) -> None:
        metrics = of_type(template, "AWS::CloudWatch::Alarm")[f"{table_id(name)}ThrottlingAlarm"]["Metrics"]
        watched = {
            dimension["Value"]
            for metric in metrics
            if "MetricStat" in metric
            for dimension in metric["MetricStat"]["Metric"]["Dimensions"]
            if dimension["Name"] == "Operation"
        }
        assert watched == {pattern.operation.value.split()[0] for pattern in online() if pattern.table == name}

    def test_every_alarm_tells_somebody(self, template: Template) -> None:
        for alarm in of_type(template, "AWS::CloudWatch::Alarm").values():
            assert alarm["AlarmActions"] == [{"Ref": "AlarmTopic"}]

    def test_cloudwatch_may_publish_to_the_topic(self, template: Template) -> None:
        """It may not use a key of AWS, such as `alias/aws/sns`; a key of one's own would need a policy that lets it."""
        [topic] = [each for each in template["Resources"].values() if each["Type"] == "AWS::SNS::Topic"]
        assert "KmsMasterKeyId" not in topic.get("Properties", {})
        assert "AWS::SNS::TopicPolicy" not in {each["Type"] for each in template["Resources"].values()}

    def test_a_chat_that_outgrows_its_partition_has_one(self, template: Template) -> None:
        alarm = of_type(template, "AWS::CloudWatch::Alarm")["LargeChatAlarm"]
        assert alarm["MetricName"] == "LargeChats"
        assert "MetricName: LargeChats" in SERVICES.read_text()

    def test_the_dashboard_shows_every_table(self, template: Template) -> None:
        [dashboard] = of_type(template, "AWS::CloudWatch::Dashboard").values()
        titles = {
            widget["properties"]["title"] for widget in json.loads(dashboard["DashboardBody"]["Fn::Sub"])["widgets"]
        }
        assert {title.split(":")[0] for title in titles} == set(NAMES)


def statements(template: Template, policy: str, effect: str) -> list[Any]:
    document = template["Resources"][policy]["Properties"]["PolicyDocument"]
    return [statement for statement in document["Statement"] if statement.get("Effect") == effect]


def item_actions(template: Template, policy: str) -> dict[str, set[str]]:
    """The item actions that a policy allows, by table."""
    allowed: dict[str, set[str]] = {}
    for statement in statements(template, policy, "Allow"):
        resources = statement.get("Resource", [])
        for resource in resources if isinstance(resources, list) else [resources]:
            for name in NAMES:
                if table_id(name) in str(resource):
                    allowed.setdefault(name, set()).update(
                        action.removeprefix("dynamodb:") for action in statement["Action"]
                    )
    return allowed


class TestPolicies:
    def test_web_may_do_what_its_access_patterns_need_and_nothing_else(self, template: Template) -> None:
        allowed = item_actions(template, "WebPolicy")
        for name in NAMES:
            needed = {action for pattern in online() if pattern.table == name for action in ACTIONS[pattern.operation]}
            assert allowed[name] - {"DescribeTable"} == needed

    def test_fanout_reads_what_it_needs_and_every_write_is_denied(self, template: Template) -> None:
        reads = {Operation.GET: "GetItem", Operation.QUERY: "Query", Operation.BATCH_GET: "BatchGetItem"}
        needed: dict[str, set[str]] = {}
        for pattern in FANOUT_PATTERNS:
            needed.setdefault(pattern.table, set()).add(reads[pattern.operation])
        allowed = item_actions(template, "FanoutPolicy")
        assert {name: actions - {"DescribeTable"} for name, actions in allowed.items() if name in needed} == needed
        [denied] = statements(template, "FanoutPolicy", "Deny")
        assert denied["Resource"] == "*"
        writes = ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem")
        in_partiql = ("PartiQLInsert", "PartiQLUpdate", "PartiQLDelete")
        assert set(denied["Action"]) == {f"dynamodb:{action}" for action in (*writes, *in_partiql)}

    def test_only_web_sends_sms(self, template: Template) -> None:
        document = json.dumps(
            {name: template["Resources"][f"{name}Policy"] for name in ("Fanout", "Watch", "Staff", "Migrator")}
        )
        assert "sns:Publish" not in document
        assert "sns:Publish" in json.dumps(template["Resources"]["WebPolicy"])

    def test_only_the_migrator_creates_tables(self, template: Template) -> None:
        for policy in ("WebPolicy", "FanoutPolicy", "WatchPolicy", "StaffPolicy"):
            assert "CreateTable" not in json.dumps(template["Resources"][policy])

    def test_only_staff_scans(self, template: Template) -> None:
        assert "dynamodb:Scan" in json.dumps(template["Resources"]["StaffPolicy"])
        for policy in ("WebPolicy", "FanoutPolicy", "WatchPolicy", "MigratorPolicy"):
            assert "Scan" not in json.dumps(template["Resources"][policy])

    def test_the_watch_reads_what_it_needs_and_every_write_is_denied(self, template: Template) -> None:
        needed: dict[str, set[str]] = {}
        for pattern in WATCH_PATTERNS:
            needed.setdefault(pattern.table, set()).update(ACTIONS[pattern.operation])
        allowed = item_actions(template, "WatchPolicy")
        assert {name: actions - {"DescribeTable"} for name, actions in allowed.items() if name in needed} == needed
        assert statements(template, "WatchPolicy", "Deny") == statements(template, "FanoutPolicy", "Deny")

    @pytest.mark.parametrize(
        ("row", "policy"),
        [
            ("`web`", "Web"),
            ("`fanout`", "Fanout"),
            ("`reconcile --watch`", "Watch"),
            ("`manage.py create_tables`", "Migrator"),
        ],
    )
    def test_the_page_of_engines_lists_the_actions(self, template: Template, row: str, policy: str) -> None:
        [cells] = [line.split("|") for line in ENGINES_PAGE.splitlines() if line.startswith(f"| {row} |")]
        allowed = {
            action.removeprefix("dynamodb:")
            for statement in statements(template, f"{policy}Policy", "Allow")
            for action in statement["Action"]
            if action.startswith("dynamodb:")
        }
        assert set(re.findall(r"`([A-Z]\w+)`", cells[2])) == allowed


class TestMedia:
    def test_uploads_expire_after_a_day_and_unclaimed_media_after_two(self, template: Template) -> None:
        [bucket] = of_type(template, "AWS::S3::Bucket").values()
        rules = {rule["Id"]: rule for rule in bucket["LifecycleConfiguration"]["Rules"]}
        assert (rules["uploads"]["Prefix"], rules["uploads"]["ExpirationInDays"]) == ("uploads/", 1)
        assert rules["pending"]["TagFilters"] == [{"Key": "state", "Value": "pending"}]
        assert rules["pending"]["ExpirationInDays"] == 2

    def test_the_bucket_is_private_encrypted_and_outlives_its_stack(self, template: Template) -> None:
        resource = template["Resources"]["MediaBucket"]
        assert resource["DeletionPolicy"] == resource["UpdateReplacePolicy"] == "Retain"
        assert set(resource["Properties"]["PublicAccessBlockConfiguration"].values()) == {True}
        assert "BucketEncryption" in resource["Properties"]

    def test_it_is_reached_with_tls_only(self, template: Template) -> None:
        [policy] = of_type(template, "AWS::S3::BucketPolicy").values()
        assert policy["Bucket"] == {"Ref": "MediaBucket"}
        [statement] = policy["PolicyDocument"]["Statement"]
        assert (statement["Effect"], statement["Principal"], statement["Action"]) == ("Deny", "*", "s3:*")
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        assert "MediaBucket" in str(statement["Resource"])

    def test_no_process_may_use_it_before_an_access_pattern_needs_it(self, template: Template) -> None:
        assert "s3:" not in json.dumps(of_type(template, "AWS::IAM::ManagedPolicy"))
