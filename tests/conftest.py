"""Engines for the tests: real ones, started once per worker, with fresh tables for each test that asks."""

import itertools
import os
from collections.abc import Iterator

import pytest
import redis

from config.embedded.dynamodb import DynamoDbEngine
from config.embedded.kafka import KafkaEngine
from config.embedded.redis import RedisEngine
from config.stores.dynamodb import Database, DynamoDBOptions, schema
from config.stores.kafka import EventProducer, KafkaOptions
from config.stores.redis import RedisOptions, connect
from config.wiring import TABLES

os.environ.setdefault("AWS_ACCESS_KEY_ID", "embedded")
os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "embedded")

_prefixes = (f"t{number}_" for number in itertools.count())


@pytest.fixture(scope="session")
def dynamodb_url() -> Iterator[str]:
    with DynamoDbEngine() as url:
        yield url


@pytest.fixture(scope="session")
def kafka_servers() -> Iterator[str]:
    with KafkaEngine() as servers:
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
    return KafkaOptions(bootstrap_servers=kafka_servers, fetch_wait_ms=5)


@pytest.fixture
def producer(kafka_options: KafkaOptions) -> Iterator[EventProducer]:
    producer = EventProducer(kafka_options)
    producer.start()
    yield producer
    producer.close()


@pytest.fixture
def redis_client(redis_url: str) -> Iterator[redis.Redis]:
    """An empty Redis."""
    client = connect(RedisOptions(url=redis_url))
    client.flushall()
    yield client
    client.close()
