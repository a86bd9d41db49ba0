"""The stores under contract: the same assertions on the fake that runs in-process and on the engine of this run."""

from collections.abc import Iterator

import pytest
from moto import mock_aws

from config.stores.dynamodb import Database, DynamoDBOptions, schema
from config.wiring import TABLES


@pytest.fixture(params=["moto", "engine"])
def options(request: pytest.FixtureRequest) -> Iterator[DynamoDBOptions]:
    if request.param == "engine":
        yield request.getfixturevalue("dynamodb_options")
        return
    with mock_aws():
        yield DynamoDBOptions(region="us-east-1", table_prefix="moto_")


@pytest.fixture
def database(options: DynamoDBOptions) -> Database:
    database = Database(options)
    schema.create_missing(database, TABLES, report=lambda line: None)
    return database
