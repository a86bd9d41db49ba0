"""The deployment's template on moto's server: the tables are those of the models, and `fanout` cannot write.

moto skips expiry and recovery of a template's tables, which `test_data_template.py` asserts, and knows no
resources of DynamoDB in policies: here every table counts as allowed where one is.
"""

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any

import boto3
import pytest
import yaml
from botocore.exceptions import ClientError
from moto.server import ThreadedMotoServer

import chats.parts
import messaging.parts
from config.wiring import deploy_check
from config.wiring.commands import TABLES
from deploy.aws import data
from foundation.kernel.ids import ChatId
from foundation.stores.dynamodb import Database, DynamoDBOptions, schema
from foundation.stores.errors import StoreRefused
from staff.services import deploy_checks
from tests.templates import services_template

PREFIX = "prod_"
REGION = "us-east-1"
CHAT = ChatId("chat_01HZZZZZZZZZZZZZZZZZZZZZZZ")
SKIPPED_BY_MOTO = ("point-in-time recovery", "ttl attribute")
KEY = {"chat_id": {"S": CHAT}, "user_id": {"S": "user_1"}}
ITEM = {**KEY, "role": {"S": "member"}, "joined_at": {"S": "2026-01-30T14:30:00.000Z"}}


@dataclass(frozen=True)
class Account:
    """An AWS account with the stack of `data.yaml`."""

    url: str

    def client(self, service: str, **credentials: str) -> Any:
        client: Any = boto3.client(service, region_name=REGION, endpoint_url=self.url, **credentials)  # type: ignore[call-overload]
        return client

    @property
    def options(self) -> DynamoDBOptions:
        return DynamoDBOptions(region=REGION, endpoint_url=self.url, table_prefix=PREFIX)

    def credentials_with(self, policy: str) -> dict[str, str]:
        """Credentials of somebody who has this policy of the template and no other."""
        iam, name = self.client("iam"), f"{policy}-{token_hex(4)}"
        iam.create_user(UserName=name)
        iam.put_user_policy(UserName=name, PolicyName=name, PolicyDocument=json.dumps(_without_resources(policy)))
        key = iam.create_access_key(UserName=name)["AccessKey"]
        return {"aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": key["SecretAccessKey"]}

    def check_policies_after(self, requests: float) -> None:
        """moto refuses what no policy allows after this many requests."""
        request = urllib.request.Request(
            f"{self.url}/moto-api/reset-auth",
            data=str(requests).encode(),
            headers={"Content-Type": "text/plain"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            assert response.status == 200


def _without_resources(policy: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(data.PATH.read_text())["Resources"][policy]["Properties"][
        "PolicyDocument"
    ]
    for statement in document["Statement"]:
        statement.pop("NotResource", None)
        statement["Resource"] = "*"
    return document


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    account = Account(f"http://{host}:{port}")
    cloudformation = account.client("cloudformation")
    cloudformation.create_stack(
        StackName="parley-data",
        TemplateBody=data.PATH.read_text(),
        Parameters=[{"ParameterKey": "TablePrefix", "ParameterValue": PREFIX}],
        Capabilities=["CAPABILITY_IAM"],
    )
    [stack] = cloudformation.describe_stacks(StackName="parley-data")["Stacks"]
    assert stack["StackStatus"] == "CREATE_COMPLETE"
    yield account
    server.stop()


@pytest.fixture
def enforced(account: Account) -> Iterator[None]:
    """Afterwards policies are not enforced any more."""
    yield
    account.check_policies_after(float("inf"))


@pytest.fixture(scope="module")
def fanout(account: Account) -> Iterator[dict[str, str]]:
    """The credentials of a fanout process, while policies are enforced."""
    account.client("dynamodb").put_item(TableName=f"{PREFIX}chat_memberships", Item=ITEM)
    credentials = account.credentials_with("FanoutPolicy")
    account.check_policies_after(0)
    yield credentials
    account.check_policies_after(float("inf"))


class TestTables:
    def test_the_stack_has_the_tables_of_the_models(self, account: Account) -> None:
        differences = list(schema.drift(Database(account.options), TABLES))
        assert [line for line in differences if not any(skipped in line for skipped in SKIPPED_BY_MOTO)] == []


class TestCheckDeploy:
    @pytest.mark.parametrize(
        ("role", "policy"),
        [("staff", "StaffPolicy"), ("web", "WebPolicy"), ("fanout", "FanoutPolicy"), ("watch", "WatchPolicy")],
    )
    def test_a_role_with_its_policy_has_every_right_that_it_is_asked_for(
        self, account: Account, enforced: None, role: str, policy: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        account.check_policies_after(float("inf"))
        credentials = account.credentials_with(policy)
        account.check_policies_after(0)
        for name, value in credentials.items():
            monkeypatch.setenv(name.upper(), value)
        deployment = replace(deploy_check.deployment(role), database=Database(account.options))
        findings = [*deploy_checks.tables(deployment), *deploy_checks.permissions(deployment)]
        assert [each for each in findings if not any(skipped in each.detail for skipped in SKIPPED_BY_MOTO)] == []

    def test_a_role_for_the_fanout_that_may_write_is_told(
        self, account: Account, enforced: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        account.check_policies_after(float("inf"))
        credentials = account.credentials_with("StaffPolicy")
        account.check_policies_after(0)
        for name, value in credentials.items():
            monkeypatch.setenv(name.upper(), value)
        deployment = replace(deploy_check.deployment("fanout"), database=Database(account.options))
        assert len(list(deploy_checks.permissions(deployment))) == len(TABLES)


class TestServices:
    def test_their_roles_are_made_after_the_data_and_before_kafka(self, account: Account) -> None:
        """moto makes no MSK cluster: the roles alone, with what they refer to."""
        template = services_template()
        names = [name for name, each in template["Resources"].items() if each["Type"] == "AWS::IAM::Role"]
        assert {"WebRole", "FanoutRole", "WatchRole"} <= set(names)
        template |= {"Resources": {name: template["Resources"][name] for name in names}, "Outputs": {}}
        cloudformation = account.client("cloudformation")
        cloudformation.create_stack(
            StackName="parley",
            TemplateBody=json.dumps(template),
            Parameters=[
                {"ParameterKey": name, "ParameterValue": "given"}
                for name, each in template["Parameters"].items()
                if "Default" not in each
            ],
            Capabilities=["CAPABILITY_IAM"],
        )
        [stack] = cloudformation.describe_stacks(StackName="parley")["Stacks"]
        assert stack["StackStatus"] == "CREATE_COMPLETE"


class TestFanout:
    def test_it_reads_members_and_messages(
        self, account: Account, fanout: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in fanout.items():
            monkeypatch.setenv(name.upper(), value)
        database = Database(account.options, read_only=True)
        posting = chats.parts.assemble_posting(database)
        history = messaging.parts.assemble_history(database, posting=posting)
        assert database.loop.run(posting.list_member_ids(CHAT)) == ["user_1"]
        assert database.loop.run(history.payloads_between(CHAT, 1, 10)) == []

    def test_every_write_is_refused_by_iam(self, account: Account, fanout: dict[str, str]) -> None:
        client, table = account.client("dynamodb", **fanout), f"{PREFIX}chat_memberships"
        put = {"TableName": table, "Item": ITEM}
        writes: list[tuple[Any, dict[str, Any]]] = [
            (client.put_item, put),
            (client.delete_item, {"TableName": table, "Key": KEY}),
            (client.update_item, {"TableName": table, "Key": KEY}),
            (client.batch_write_item, {"RequestItems": {table: [{"PutRequest": {"Item": ITEM}}]}}),
            (client.transact_write_items, {"TransactItems": [{"Put": put}]}),
        ]
        for write, arguments in writes:
            with pytest.raises(ClientError, match="AccessDenied"):
                write(**arguments)

    def test_our_own_client_names_the_refusal(
        self, account: Account, fanout: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in fanout.items():
            monkeypatch.setenv(name.upper(), value)
        with pytest.raises(StoreRefused):
            Database(account.options).call("DeleteItem", {"TableName": f"{PREFIX}chat_memberships", "Key": KEY})
