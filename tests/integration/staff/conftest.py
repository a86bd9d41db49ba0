"""A small deployment on real engines, and ways to damage it."""

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis

from accounts.models import UserModel
from config.wiring.commands import TABLES
from config.wiring.web import Web
from foundation.kernel.loops import ServiceLoop
from foundation.stores.dynamodb import Database, DynamoDBOptions, schema
from foundation.stores.kafka import EventProducer, KafkaOptions
from tests.app_patterns import app_patterns
from tests.integration.staff.deployment import Deployment
from tests.integration.staff.site import Site, populated, running_web

__all__ = ["app_patterns"]

_numbers = itertools.count()

Manage = Callable[..., "subprocess.CompletedProcess[str]"]


@contextmanager
def tables(url: str, prefix: str) -> Iterator[Database]:
    """A database with an event loop of its own."""
    options = DynamoDBOptions(region="us-east-1", endpoint_url=url, table_prefix=prefix)
    database = Database(options, loop=ServiceLoop())
    schema.create_missing(database, TABLES, report=lambda line: None)
    yield database
    database.loop.run(database.on_loop.wire.close())
    database.loop.close()


@pytest.fixture(scope="package")
def database(dynamodb_url: str) -> Iterator[Database]:
    """Tables shared by the package: every test brings chats and people of its own, unless it looks at everything."""
    with tables(dynamodb_url, "staff_tests_") as database:
        yield database


@pytest.fixture
def deployment(
    database: Database, producer: EventProducer, kafka_options: KafkaOptions, redis_client: Redis
) -> Iterator[Deployment]:
    deployment = Deployment(database, producer, kafka_options, redis_client)
    yield deployment
    deployment.close()


@pytest.fixture(scope="module")
def staff_web(dynamodb_url: str, kafka_servers: str, redis_url: str) -> Iterator[Web]:
    """The services behind the pages, shared by the tests of a module."""
    options = DynamoDBOptions(region="us-east-1", endpoint_url=dynamodb_url, table_prefix=f"staff{next(_numbers)}_")
    database = Database(options)
    schema.create_missing(database, TABLES, report=lambda line: None)
    with running_web(database, dynamodb_url=dynamodb_url, kafka_servers=kafka_servers, redis_url=redis_url) as web:
        yield web


@pytest.fixture
def site(db: None, staff_web: Web) -> Site:
    """The pages, with people of the test's own."""
    return populated(staff_web)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a migrated database for the audit log, to be copied."""
    directory = tmp_path_factory.mktemp("migrated")
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings.embedded", "DATA_DIR": str(directory)}
    command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
    subprocess.run(command, env=environment, timeout=60, check=True)
    return directory


@pytest.fixture
def manage(
    database: Database, dynamodb_url: str, kafka_servers: str, redis_url: str, migrated: Path, tmp_path: Path
) -> Manage:
    """Runs a command as an operator does."""
    shutil.copytree(migrated, tmp_path, dirs_exist_ok=True)
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings.embedded",
        "DATA_DIR": str(tmp_path),
        "DYNAMODB_ENDPOINT_URL": dynamodb_url,
        "KAFKA_BOOTSTRAP_SERVERS": kafka_servers,
        "REDIS_URL": redis_url,
        "TABLE_PREFIX": database.table_name(UserModel).removesuffix("users"),
    }

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run
