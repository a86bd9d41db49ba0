from collections.abc import Iterator

import pytest
from django.test import override_settings

from config.wiring.commands import TABLES
from foundation.stores.dynamodb import Database, DynamoDBOptions, schema
from tests.doubles import SettableClock
from tests.integration.chats.stage import RecordingAnnouncer, Stage


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
def announcer() -> RecordingAnnouncer:
    return RecordingAnnouncer()


@pytest.fixture
def stage(database: Database, announcer: RecordingAnnouncer, clock: SettableClock) -> Iterator[Stage]:
    """The services, and their routes as the site's."""
    stage = Stage(database, announcer, clock)
    with override_settings(ROOT_URLCONF=stage.urlconf()):
        yield stage
    stage.committer.close()
    stage.history.close()
