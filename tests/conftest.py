"""Engines for the tests: started once per worker, with fresh tables for each test that asks.

`--engines=real` runs the same files on Apache Kafka and DynamoDB Local instead of the embedded engines.
"""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import redis
from xdist.remote import Producer

from config.wiring.commands import TABLES
from engines.redis import RedisEngine
from foundation.stores.dynamodb import Database, DynamoDBOptions, schema
from foundation.stores.kafka import EventProducer, KafkaOptions
from foundation.stores.redis.client import RedisOptions, connect
from tests import workers
from tests.e2e.browser import chromium
from tests.engines import choice, java

# A slow machine must not fail a test.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

os.environ.setdefault("AWS_ACCESS_KEY_ID", "embedded")
os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "embedded")

# What is about the embedded engines themselves, or about no engine at all, is not repeated on others.
EMBEDDED_ONLY = (
    "tests/e2e/test_bench.py",
    "tests/e2e/test_embedded_engines.py",
    "tests/e2e/test_dev_command.py",
    "tests/e2e/browser",
    # Clients, sockets, HTTP and pages: the same whatever the engines.
    "tests/e2e/test_earlier_clients.py",
    "tests/e2e/test_edge.py",
    "tests/e2e/test_gateway.py",
    "tests/e2e/test_marks.py",
    "tests/e2e/test_openapi.py",
    "tests/e2e/test_socket_abuse.py",
    "tests/e2e/test_terminal_client.py",
    "tests/e2e/test_walk.py",
    "tests/integration/staff/test_accounts.py",
    "tests/integration/staff/test_login.py",
    "tests/integration/staff/test_pages.py",
    # DynamoDB Local answers before it commits: when it ends, the last transactions may be gone (docs/engines.md).
    "tests/e2e/faults/test_dynamodb_lost.py",
    "tests/e2e/drills/test_dynamodb_outage.py",
    "tests/confirmation/test_deployment.py",
    "tests/unit",
)
REAL_ONLY = ("tests/real",)
# They need programs that `make` does not install, and fail without them: `make test-deploy` names the directory.
TOOLS = ("tests/tools",)

_prefixes = (f"t{number}_" for number in itertools.count())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engines",
        choices=[choice.EMBEDDED, choice.REAL],
        default=choice.EMBEDDED,
        help="embedded: our own DynamoDB and Kafka; real: DynamoDB Local and Apache Kafka, which need Java",
    )


def pytest_configure(config: pytest.Config) -> None:
    choice.choose(config.getoption("engines"))
    if choice.is_real() and not hasattr(config, "workerinput"):
        java.remove_logs()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    elsewhere = EMBEDDED_ONLY if choice.is_real() else REAL_ONLY
    return True if collection_path.relative_to(config.rootpath).as_posix() in (*elsewhere, *TOOLS) else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> workers.Shares:
    return workers.make_scheduler(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    workers.tell_apart(items)
    workers.put_heavy_first(items)
    if choice.is_real():
        _leave_out_moto(config, items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    if choice.is_real() and exitstatus != pytest.ExitCode.OK:
        terminalreporter.write_line(f"The logs of the engines are in {java.LOGS}")
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "recovery":
                terminalreporter.write_line(str(value))
    if not choice.is_real() and not chromium.IS_POSSIBLE:
        terminalreporter.write_line("Browser tests left out: install Chromium (apt-get install chromium) to run them.")


def _leave_out_moto(config: pytest.Config, items: list[pytest.Item]) -> None:
    """moto stands beside the embedded engines; beside the real ones it would only be repeated."""
    repeated = [item for item in items if isinstance(item, pytest.Function) and _is_on_moto(item)]
    items[:] = [item for item in items if item not in repeated]
    config.hook.pytest_deselected(items=repeated)


def _is_on_moto(item: pytest.Function) -> bool:
    return hasattr(item, "callspec") and "moto" in item.callspec.params.values()


@pytest.fixture(scope="session")
def dynamodb_url() -> Iterator[str]:
    with choice.make_dynamodb() as url:
        yield url


@pytest.fixture(scope="session")
def kafka_servers() -> Iterator[str]:
    with choice.make_kafka() as servers:
        yield servers


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with RedisEngine() as url:
        yield url


@pytest.fixture
def dynamodb_options(dynamodb_url: str) -> DynamoDBOptions:
    return DynamoDBOptions(region="us-east-1", endpoint_url=dynamodb_url, table_prefix=next(_prefixes))


@pytest.fixture
def database(dynamodb_options: DynamoDBOptions) -> Database:
    """The eight tables, empty."""
    database = Database(dynamodb_options)
    schema.create_missing(database, TABLES, report=lambda line: None)
    return database


@pytest.fixture
def kafka_options(kafka_servers: str) -> KafkaOptions:
    return KafkaOptions(bootstrap_servers=kafka_servers)


@pytest.fixture
def producer(kafka_options: KafkaOptions) -> Iterator[EventProducer]:
    producer = EventProducer(kafka_options)
    producer.start()
    yield producer
    producer.close()


@pytest.fixture
def redis_client(redis_url: str) -> Iterator[redis.Redis]:
    """An empty Redis."""
    client = connect(RedisOptions(url=redis_url, connect_timeout=10, answer_timeout=10))
    client.flushall()
    yield client
    client.close()
