"""The eight tables: created once, and compared with their models."""

from collections.abc import Callable

import pytest

import accounts.stores
from accounts.models import SessionModel, UserModel
from chats.models import CounterModel
from config.wiring.commands import TABLES
from foundation.stores.dynamodb import Database, DynamoDBOptions, schema
from foundation.stores.dynamodb.table import Table


def silent(line: str) -> None:
    """Ignore a report."""


@pytest.fixture
def bare(options: DynamoDBOptions) -> Database:
    """An engine without tables of this prefix."""
    return Database(options)


def recreate(database: Database, table: type[Table], change: Callable[[dict[str, object]], None]) -> None:
    """Replace a table by one that differs from its model."""
    name = database.table_name(table)
    database.call("DeleteTable", {"TableName": name})
    request = schema._create_request(table, name)
    change(request)
    database.call("CreateTable", request)


class TestCreateMissing:
    def test_the_eight_tables_of_the_data_model(self, bare: Database) -> None:
        schema.create_missing(bare, TABLES, report=silent)
        assert {table.Meta.table_name for table in TABLES} == {
            "users",
            "sessions",
            "chats",
            "chat_memberships",
            "chat_counters",
            "messages",
            "idempotency_keys",
            "delivery_state",
        }
        assert list(schema.drift(bare, TABLES)) == []

    def test_running_again_changes_nothing(self, bare: Database) -> None:
        schema.create_missing(bare, TABLES, report=silent)
        lines: list[str] = []
        schema.create_missing(bare, TABLES, report=lines.append)
        assert lines == [f"{bare.table_name(table)}: exists" for table in TABLES]

    def test_capacity_of_the_settings_replaces_that_of_the_model(self) -> None:
        request = schema._create_request(UserModel, "users", {"users": (400, 100)})
        assert request["BillingMode"] == "PROVISIONED"
        units = {"ReadCapacityUnits": 400, "WriteCapacityUnits": 100}
        assert request["ProvisionedThroughput"] == units
        assert [index["ProvisionedThroughput"] for index in request["GlobalSecondaryIndexes"]] == [units]
        assert schema.expected(CounterModel, {"chat_counters": (1, 1)}).billing_mode == "PROVISIONED"

    def test_only_ephemeral_tables_expire(self, bare: Database) -> None:
        schema.create_missing(bare, TABLES, report=silent)
        expiring = {
            table.Meta.table_name
            for table in TABLES
            if (found := schema.live(bare, table)) is not None and found.ttl_attribute == "ttl"
        }
        assert expiring == {"idempotency_keys", "sessions"}


class TestDrift:
    def test_a_missing_table_is_named(self, bare: Database) -> None:
        schema.create_missing(bare, accounts.stores.TABLES, report=silent)
        bare.call("DeleteTable", {"TableName": bare.table_name(UserModel)})
        assert list(schema.drift(bare, accounts.stores.TABLES)) == [
            f"{bare.table_name(UserModel)}: the table is missing"
        ]

    def test_a_missing_index_is_named(self, bare: Database) -> None:
        schema.create_missing(bare, [UserModel], report=silent)

        def without_index(request: dict[str, object]) -> None:
            del request["GlobalSecondaryIndexes"]
            request["AttributeDefinitions"] = [{"AttributeName": "user_id", "AttributeType": "S"}]

        recreate(bare, UserModel, without_index)
        assert f"{bare.table_name(UserModel)}: index phone_number-index: missing" in list(
            schema.drift(bare, [UserModel])
        )

    def test_a_table_that_was_switched_to_on_demand_is_no_difference(self, bare: Database) -> None:
        schema.create_missing(bare, [UserModel], report=silent, capacities={"users": None})
        found = schema.live(bare, UserModel)
        assert found is not None
        assert found.billing_mode == "PAY_PER_REQUEST"
        assert list(schema.drift(bare, [UserModel])) == []

    def test_another_projection_and_a_provisioned_table_instead_of_on_demand_are_named(self, bare: Database) -> None:
        schema.create_missing(bare, [UserModel], report=silent)

        def wider(request: dict[str, object]) -> None:
            request["GlobalSecondaryIndexes"] = [
                {
                    "IndexName": "phone_number-index",
                    "KeySchema": [{"AttributeName": "phone_number", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "ALL"},
                    "ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1},
                }
            ]

        recreate(bare, UserModel, wider)
        lines = [line.partition(": ")[2] for line in schema.drift(bare, [UserModel], capacities={"users": None})]
        assert "billing mode: expected PAY_PER_REQUEST, found PROVISIONED" in lines
        assert "index phone_number-index projection: expected KEYS_ONLY, found ALL" in lines

    def test_expiry_turned_off_is_named(self, bare: Database) -> None:
        schema.create_missing(bare, [SessionModel], report=silent)
        bare.call(
            "UpdateTimeToLive",
            {
                "TableName": bare.table_name(SessionModel),
                "TimeToLiveSpecification": {"AttributeName": "ttl", "Enabled": False},
            },
        )
        assert [line.partition(": ")[2] for line in schema.drift(bare, [SessionModel])] == [
            "ttl attribute: expected ttl, found None"
        ]


class TestRecovery:
    """Point-in-time recovery exists on AWS and in moto; the embedded engine has no such feature."""

    @pytest.mark.parametrize("options", ["moto"], indirect=True)
    def test_every_table_can_be_recovered_to_a_point_in_time(self, bare: Database) -> None:
        schema.create_missing(bare, TABLES, report=silent)
        assert all(found.point_in_time_recovery for table in TABLES if (found := schema.live(bare, table)))

    @pytest.mark.parametrize("options", ["moto"], indirect=True)
    def test_recovery_turned_off_is_named(self, bare: Database) -> None:
        schema.create_missing(bare, [UserModel], report=silent)
        bare.call(
            "UpdateContinuousBackups",
            {
                "TableName": bare.table_name(UserModel),
                "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": False},
            },
        )
        assert [line.partition(": ")[2] for line in schema.drift(bare, [UserModel])] == [
            "point-in-time recovery: expected True, found the opposite"
        ]
