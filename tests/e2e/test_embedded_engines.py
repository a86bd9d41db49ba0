"""The embedded engines: start, restart, loss of the process, error messages."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import pytest
import redis
from confluent_kafka import Consumer, Producer, TopicPartition
from mypy_boto3_dynamodb import DynamoDBClient

from engines import dynamodb
from engines.dynamodb import DynamoDbEngine
from engines.engine import Engine
from engines.errors import EngineFailed, EngineMissing, PortUnusable
from engines.kafka import PARTITIONS, KafkaEngine
from engines.ports import ReservedPort
from engines.processes import ChildProcess
from engines.redis import RedisEngine
from foundation.kernel.events import TOPICS
from tests.doubles import eventually


def dynamodb_at(endpoint: str) -> DynamoDBClient:
    return boto3.client(
        "dynamodb",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )


def create_table(endpoint: str, name: str) -> None:
    dynamodb_at(endpoint).create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "key", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )


def put(endpoint: str, table: str, key: str) -> None:
    dynamodb_at(endpoint).put_item(TableName=table, Item={"key": {"S": key}})


def keys(endpoint: str, table: str) -> list[str]:
    return [item["key"]["S"] for item in dynamodb_at(endpoint).scan(TableName=table)["Items"]]


@contextmanager
def consuming(servers: str) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "readers", "auto.offset.reset": "earliest"})
    yield consumer
    consumer.close()


def eventually_polled(consumer: Consumer) -> bytes | None:
    """The next message. The client reports outages by `poll` too; they are skipped."""
    found: list[bytes | None] = []

    def polled() -> bool:
        message = consumer.poll(0.1)
        found.extend([] if message is None or message.error() is not None else [message.value()])
        return bool(found)

    eventually(polled, within=30)
    return found[0]


def counts(*consumers: Consumer) -> list[int]:
    """The number of partitions of each consumer, ascending."""
    return sorted(len(consumer.assignment()) for consumer in consumers)


def no_program(*_: object) -> None:
    """No server is installed."""


class TestDynamoDb:
    def test_a_killed_engine_restarts_on_its_port_with_its_data(self, tmp_path: Path) -> None:
        engine = DynamoDbEngine(data_dir=tmp_path)
        with engine as endpoint:
            create_table(endpoint, "kept")
            put(endpoint, "kept", "acknowledged")
            engine.kill()
            engine.start()
            assert engine.wait_until_ready() == endpoint
            assert keys(endpoint, "kept") == ["acknowledged"]

    def test_the_next_engine_on_a_directory_has_its_data(self, tmp_path: Path) -> None:
        with DynamoDbEngine(data_dir=tmp_path) as endpoint:
            create_table(endpoint, "kept")
            put(endpoint, "kept", "acknowledged")
        with DynamoDbEngine(data_dir=tmp_path) as endpoint:
            assert keys(endpoint, "kept") == ["acknowledged"]

    def test_without_a_directory_it_keeps_nothing(self) -> None:
        with DynamoDbEngine() as endpoint:
            create_table(endpoint, "lost")
        with DynamoDbEngine() as endpoint:
            assert dynamodb_at(endpoint).list_tables()["TableNames"] == []

    def test_the_file_of_another_engine_is_left_alone(self, tmp_path: Path) -> None:
        other = tmp_path / "dynamodb.sqlite"
        other.write_text("another program's")
        with DynamoDbEngine(data_dir=tmp_path) as endpoint:
            create_table(endpoint, "own")
        assert other.read_text() == "another program's"

    def test_a_second_engine_on_a_file_is_refused_and_the_first_continues(self, tmp_path: Path) -> None:
        refusal = (
            r"dynamodb ended with exit status 1 before it was ready: .+ cannot be opened \(database is locked\): "
            "it may be in use by another process"
        )
        with DynamoDbEngine(data_dir=tmp_path) as endpoint:
            create_table(endpoint, "kept")
            with pytest.raises(EngineFailed, match=refusal), DynamoDbEngine(data_dir=tmp_path):
                pytest.fail("the file is in use")
            assert keys(endpoint, "kept") == []

    def test_a_port_in_use_is_named_in_its_last_line(self) -> None:
        with DynamoDbEngine() as endpoint:
            port = endpoint.rpartition(":")[2]
            lines: list[str] = []
            command = [sys.executable, "-m", "engines.dynamolite", "--port", port]
            assert ChildProcess("second", command, log=lines.append).wait() == 1
            assert port in lines[-1]
            assert "address already in use" in lines[-1]

    def test_a_missing_package_is_named_with_the_remedy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dynamodb, "PACKAGES", ("sys", "not_installed"))
        with (
            pytest.raises(EngineMissing, match="cannot start without not_installed: run `pip install -r requirements-"),
            DynamoDbEngine(),
        ):
            pytest.fail("there is nothing to start")


class TestKafka:
    def test_the_topics_exist_and_hold_no_record(self) -> None:
        with KafkaEngine(topics=TOPICS) as servers, consuming(servers) as consumer:
            topics = consumer.list_topics(timeout=10).topics
            assert set(topics) == set(TOPICS)
            partitions = [TopicPartition(name, number) for name in topics for number in topics[name].partitions]
            assert {consumer.get_watermark_offsets(partition, timeout=10) for partition in partitions} == {(0, 0)}

    def test_a_broker_that_was_down_returns_on_its_port_with_its_log(self) -> None:
        engine = KafkaEngine(topics=["news"])
        with engine as servers:
            producer = Producer({"bootstrap.servers": servers, "log_level": 2})
            producer.produce("news", "before")
            assert producer.flush(10) == 0
            engine.take_down()
            producer.produce("news", "while down")
            assert producer.flush(0.2) == 1
            engine.bring_up()
            assert producer.flush(15) == 0
            with consuming(servers) as consumer:
                consumer.subscribe(["news"])
                records = consumer.consume(2, timeout=15)
            assert {record.value() for record in records} == {b"before", b"while down"}

    def test_a_killed_engine_restarts_empty_on_its_port_and_clients_reconnect(self) -> None:
        engine = KafkaEngine(topics=["news"])
        with engine as servers, consuming(servers) as consumer:
            producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 2})
            consumer.subscribe(["news"])
            for number in range(5):
                producer.produce("news", f"before {number}")
            assert producer.flush(10) == 0
            assert len(consumer.consume(5, timeout=15)) == 5
            engine.kill()
            engine.start()
            assert engine.wait_until_ready() == servers
            producer.produce("news", "after")
            assert producer.flush(15) == 0
            assert eventually_polled(consumer) == b"after"

    def test_a_fetch_returns_as_soon_as_there_is_a_message(self) -> None:
        """The consumer's fetch may wait for longer than this test's timeout."""
        with KafkaEngine(topics=["news"]) as servers:
            patient = {"fetch.wait.max.ms": 120_000, "socket.timeout.ms": 200_000}
            consumer = Consumer({"bootstrap.servers": servers, "group.id": "patient", **patient})
            consumer.assign([TopicPartition("news", number, 0) for number in range(PARTITIONS)])
            assert consumer.poll(1.0) is None
            producer = Producer({"bootstrap.servers": servers})
            producer.produce("news", "now")
            assert producer.flush(10) == 0
            message = consumer.poll(30.0)
            assert message is not None
            assert message.value() == b"now"
            consumer.close()

    @pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
    def test_compressed_batches_are_stored_as_they_are(self, compression: str) -> None:
        with KafkaEngine(topics=["news"]) as servers, consuming(servers) as consumer:
            producer = Producer({"bootstrap.servers": servers, "compression.type": compression, "linger.ms": 20})
            sent = [b"%d " % number + b"text" * 500 for number in range(50)]
            for value in sent:
                producer.produce("news", value, partition=1)
            assert producer.flush(10) == 0
            consumer.subscribe(["news"])
            assert [message.value() for message in consumer.consume(50, timeout=15)] == sent

    def test_partitions_are_assigned_to_the_members_of_the_group(self) -> None:
        with KafkaEngine(topics=["news"]) as servers, consuming(servers) as one:
            one.subscribe(["news"])
            eventually(lambda: one.poll(0.05) is None and counts(one) == [PARTITIONS], within=20)
            with consuming(servers) as other:
                other.subscribe(["news"])
                eventually(
                    lambda: one.poll(0.05) is other.poll(0.05) is None and counts(one, other) == [1, 2],
                    within=20,
                )
            eventually(lambda: one.poll(0.05) is None and counts(one) == [PARTITIONS], within=20)

    def test_a_port_in_use_is_named_in_its_last_line(self) -> None:
        with KafkaEngine(topics=["news"]) as servers:
            port = servers.rpartition(":")[2]
            lines: list[str] = []
            command = [sys.executable, "-m", "engines.kafkalite", "--port", port, "news"]
            assert ChildProcess("second", command, log=lines.append).wait() == 1
            assert lines[-1].startswith(f"Cannot listen on port {port}")


class TestRedis:
    def test_a_killed_engine_restarts_empty_on_its_port(self) -> None:
        engine = RedisEngine()
        with engine as url, redis.Redis.from_url(url) as client:
            client.set("key", "value")
            engine.kill()
            with pytest.raises(redis.ConnectionError):
                client.ping()
            engine.start()
            assert engine.wait_until_ready() == url
            assert client.dbsize() == 0

    def test_a_missing_server_is_reported_with_the_remedy(self) -> None:
        with (
            pytest.raises(EngineMissing, match="No Redis server was found: run `pip install"),
            RedisEngine(find_program=no_program),
        ):
            pytest.fail("there is no server to start")

    def test_a_server_that_exits_at_once_is_named_with_its_last_line(self, tmp_path: Path) -> None:
        broken = tmp_path / "redis-server"
        broken.write_text("#!/bin/sh\necho out of order\nexit 3\n")
        broken.chmod(0o755)
        engine = RedisEngine(find_program=lambda: broken)
        with (
            pytest.raises(EngineFailed, match="redis ended with exit status 3 before it was ready: out of order"),
            engine,
        ):
            pytest.fail("the server is broken")


class TestEveryEngine:
    @pytest.mark.parametrize("make", [DynamoDbEngine, lambda: KafkaEngine(topics=["news"]), RedisEngine])
    def test_it_outlives_the_thread_that_started_it(self, make: Callable[[], Engine]) -> None:
        engine = make()
        starter = threading.Thread(target=engine.__enter__)
        starter.start()
        starter.join()
        try:
            assert engine.process.status is None
            assert engine.wait_until_ready() == engine.endpoint
        finally:
            engine.close()
        assert engine.process.status is not None


class TestReservedPort:
    def test_a_port_in_use_is_refused(self) -> None:
        with RedisEngine() as url, pytest.raises(PortUnusable, match="is in use by another process"):
            ReservedPort(int(url.split(":")[2].removesuffix("/0")))

    def test_an_invalid_port_number_is_refused(self) -> None:
        with pytest.raises(PortUnusable, match="Port 65536 cannot be used"):
            ReservedPort(65536)
