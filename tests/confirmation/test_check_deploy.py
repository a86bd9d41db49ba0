"""What `check_deploy` tries, under the policies of `deploy/aws/data.yaml`: resource by resource, as moto does not."""

from typing import Any

import pytest
from pynamodb.models import Model

from config.wiring.commands import TABLES
from config.wiring.deploy_check import ROLES
from foundation.stores.dynamodb import Database, DynamoDBOptions
from staff.services.permission_probes import attempts, deletion
from tests.templates import PREFIX, Policies
from tests.templates import TABLES as ARNS

DATABASE = Database(DynamoDBOptions(region="us-east-1", table_prefix=PREFIX))
POLICIES = {role: Policies(f"{role.capitalize()}Policy") for role in ROLES}


def place_of(request: dict[str, Any]) -> str:
    [table] = request.get("RequestItems") or [request["TableName"]]
    return f"{ARNS}/{table}/index/{request['IndexName']}" if "IndexName" in request else f"{ARNS}/{table}"


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_allowed_whatever_is_tried(role: str) -> None:
    tried = [
        (f"dynamodb:{operation}", place_of(request))
        for _, operation, request in attempts(DATABASE, ROLES[role]().patterns)
    ]
    assert tried
    assert [each for each in tried if not POLICIES[role].allow(*each)] == []


@pytest.mark.parametrize("role", ROLES)
def test_every_table_is_described_by_whoever_is_to(role: str) -> None:
    actions = {"DescribeTable"}
    if ROLES[role]().may_describe:
        actions |= {"DescribeTimeToLive", "DescribeContinuousBackups"}
    for model in TABLES:
        arn = f"{ARNS}/{DATABASE.table_name(model)}"
        assert all(POLICIES[role].allow(f"dynamodb:{action}", arn) for action in actions)


@pytest.mark.parametrize("model", TABLES, ids=lambda model: model.Meta.table_name)
def test_a_role_that_must_not_write_is_denied_the_deletion(model: type[Model]) -> None:
    request = deletion(DATABASE, model)
    for role, policies in POLICIES.items():
        if not ROLES[role]().may_write:
            assert not policies.allow("dynamodb:DeleteItem", place_of(request))
