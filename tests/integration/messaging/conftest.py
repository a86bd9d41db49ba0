from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.test import override_settings

from config.wiring.commands import TABLES
from foundation.kernel.ids import ChatId, UserId
from foundation.kernel.loops import ServiceLoop
from foundation.stores.dynamodb import Database, DynamoDBOptions, schema
from tests.doubles import SettableClock
from tests.engines.moto import MotoServer
from tests.integration.messaging.services import Services


@contextmanager
def opened(options: DynamoDBOptions) -> Iterator[Database]:
    """A database with an event loop of its own, as in a process of its own."""
    database = Database(options, loop=ServiceLoop())
    schema.create_missing(database, TABLES, report=lambda line: None)
    yield database
    database.loop.run(database.on_loop.wire.close())
    database.loop.close()


@pytest.fixture(scope="package")
def moto_database() -> Iterator[Database]:
    with MotoServer() as url, opened(DynamoDBOptions(region="us-east-1", endpoint_url=url)) as database:
        yield database


@pytest.fixture(scope="package")
def package_options(dynamodb_url: str) -> DynamoDBOptions:
    """Tables shared by the package: every test brings chats and users of its own."""
    return DynamoDBOptions(region="us-east-1", endpoint_url=dynamodb_url, table_prefix="messaging_tests_")


@pytest.fixture(scope="package")
def database(package_options: DynamoDBOptions) -> Iterator[Database]:
    with opened(package_options) as database:
        yield database


@pytest.fixture(scope="package")
def other_database(package_options: DynamoDBOptions) -> Iterator[Database]:
    """Another process's client of the same tables."""
    with opened(package_options) as database:
        yield database


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
def services(database: Database, clock: SettableClock) -> Iterator[Services]:
    services = Services(database, clock)
    with override_settings(ROOT_URLCONF=services.urlconf()):
        yield services
    services.close()


@pytest.fixture
def other_process(other_database: Database, clock: SettableClock) -> Iterator[Services]:
    """The services of another process on the same tables."""
    other_process = Services(other_database, clock)
    yield other_process
    other_process.close()


@pytest.fixture
def ann(services: Services) -> UserId:
    return services.ids.user()


@pytest.fixture
def bob(services: Services) -> UserId:
    return services.ids.user()


@pytest.fixture
def chat(services: Services, ann: UserId, bob: UserId) -> ChatId:
    """Ann's and Bob's."""
    return services.create_chat(ann, bob)
