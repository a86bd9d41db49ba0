"""`create_topics` on a broker without any."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from foundation.kernel.events import TOPICS
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka import EventLogAdmin, KafkaOptions
from tests.engines.kafka import ApacheKafka

SEVEN_DAYS_MS = "604800000"


@pytest.fixture(scope="module")
def bare() -> Iterator[str]:
    with ApacheKafka(topics=()) as servers:
        yield servers


class TestCreateTopics:
    def test_too_few_brokers_are_an_error_until_as_many_as_there_are_is_asked_for(self, bare: str) -> None:
        log = EventLogAdmin(KafkaOptions(bootstrap_servers=bare))
        with pytest.raises(EventLogUnavailable, match="INVALID_REPLICATION_FACTOR"):
            log.create_topics(partitions=12, replication=3)
        assert log.missing_topics(timeout=5) == sorted(TOPICS)

        command = [sys.executable, "manage.py", "create_topics", "--replication", "auto"]
        environment = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": bare}
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert result.stdout.strip() == f"created {', '.join(sorted(TOPICS))}"
        assert log.missing_topics(timeout=5) == []

        client = AdminClient({"bootstrap.servers": bare})
        topics = client.list_topics(timeout=5).topics
        assert {len(topics[name].partitions) for name in TOPICS} == {12}
        asked = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in TOPICS]
        for answer in client.describe_configs(asked).values():
            configuration = answer.result(5)
            assert configuration["retention.ms"].value == SEVEN_DAYS_MS
            assert configuration["cleanup.policy"].value == "delete"
