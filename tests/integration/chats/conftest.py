from collections.abc import Iterator

import pytest

from config.wiring.commands import TABLES
from foundation.stores.dynamodb import Database, DynamoDBOptions, schema
from tests.doubles import SettableClock
from tests.integration.chats.services import RecordingProducer, Services


@pytest.fixture(scope="package")
def database(dynamodb_url: str) -> Database:
    """Tables shared by the package: every test brings users of its own, and sees only what is theirs."""
    database = Database(DynamoDBOptions(region="us-east-1", endpoint_url=dynamodb_url, table_prefix="chats_tests_"))
    schema.create_missing(database, TABLES, report=lambda line: None)
    return database


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
def published() -> RecordingProducer:
    """A producer that records the published events."""
    return RecordingProducer()


@pytest.fixture
def services(database: Database, published: RecordingProducer, clock: SettableClock) -> Iterator[Services]:
    """The services, and their routes as the site's."""
    with Services(database, published, clock).serving() as services:
        yield services
