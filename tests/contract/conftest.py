"""The same assertions run on moto, an independent emulator of AWS, and on the engine."""

import itertools
from collections.abc import Iterator

import pytest

from config.wiring.commands import TABLES
from foundation.stores.dynamodb import Database, DynamoDBOptions, schema
from tests.engines.moto import MotoServer

_numbers = itertools.count()


@pytest.fixture(scope="package")
def moto_url() -> Iterator[str]:
    with MotoServer() as url:
        yield url


@pytest.fixture(params=["moto", "engine"])
def options(request: pytest.FixtureRequest) -> DynamoDBOptions:
    if request.param == "engine":
        found: DynamoDBOptions = request.getfixturevalue("dynamodb_options")
        return found
    url = request.getfixturevalue("moto_url")
    return DynamoDBOptions(region="us-east-1", endpoint_url=url, table_prefix=f"moto{next(_numbers)}_")


@pytest.fixture
def database(options: DynamoDBOptions) -> Database:
    database = Database(options)
    schema.create_missing(database, TABLES, report=lambda line: None)
    return database
