from collections.abc import Iterator

import pytest
from django.test import override_settings

from config.wiring.commands import TABLES
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import Database, DynamoDBOptions, schema
from tests.doubles import SettableClock
from tests.engines.moto import MotoServer
from tests.integration.messaging.stage import Stage


@pytest.fixture(scope="package")
def moto_url() -> Iterator[str]:
    with MotoServer() as url:
        yield url


@pytest.fixture(scope="package")
def package_options(dynamodb_url: str) -> DynamoDBOptions:
    """Tables shared by the package: every test brings chats and users of its own."""
    options = DynamoDBOptions(region="us-east-1", endpoint_url=dynamodb_url, table_prefix="messaging_tests_")
    schema.create_missing(Database(options), TABLES, report=lambda line: None)
    return options


@pytest.fixture(scope="package")
def database(package_options: DynamoDBOptions) -> Database:
    return Database(package_options)


@pytest.fixture(scope="package")
def other_database(package_options: DynamoDBOptions) -> Database:
    """Another process's client of the same tables."""
    return Database(package_options)


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
def stage(database: Database, clock: SettableClock) -> Iterator[Stage]:
    stage = Stage(database, clock)
    with override_settings(ROOT_URLCONF=stage.urlconf()):
        yield stage
    stage.close()


@pytest.fixture
def ann(stage: Stage) -> UserId:
    return stage.ids.user()


@pytest.fixture
def bob(stage: Stage) -> UserId:
    return stage.ids.user()


@pytest.fixture
def chat(stage: Stage, ann: UserId, bob: UserId) -> ChatId:
    """Ann's and Bob's."""
    return stage.create_chat(ann, bob)
