"""Creates the topics and checks that they exist."""

from concurrent.futures import TimeoutError as FutureTimeout
from datetime import timedelta
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from foundation.kernel.events import TOPICS
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka.options import KafkaOptions

REPLICATION = 3
SEVEN_DAYS_MS = 7 * 24 * 3600 * 1000
FOR_EVER = timedelta(days=3650)


class EventLogAdmin:
    """For operators' commands and the readiness probe."""

    def __init__(self, options: KafkaOptions) -> None:
        self._client = AdminClient(options.common())

    def require_topics(self, timeout: float) -> None:
        """Raises `EventLogUnavailable` when no broker answers in time, or a topic is missing."""
        if missing := self.missing_topics(timeout):
            raise EventLogUnavailable(f"No topic {', '.join(missing)}: the operator runs `manage.py create_topics`")

    def missing_topics(self, timeout: float) -> list[str]:
        return sorted(set(TOPICS) - set(self._metadata(timeout).topics))

    def settings(self, topic: str, timeout: float = 10.0) -> dict[str, str]:
        """A topic's settings, such as `retention.ms`. Raises `EventLogUnavailable`."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        try:
            future = self._client.describe_configs([resource], request_timeout=timeout)[resource]
            return {name: str(entry.value) for name, entry in future.result(timeout + 1.0).items()}
        except (KafkaException, FutureTimeout) as error:
            raise EventLogUnavailable(f"Kafka does not tell the settings of {topic}: {error}") from error

    def retention(self, topic: str) -> timedelta:
        """How long Kafka keeps an event of the topic at least. Raises `EventLogUnavailable`."""
        milliseconds = int(self.settings(topic).get("retention.ms", SEVEN_DAYS_MS))
        return timedelta(milliseconds=milliseconds) if milliseconds >= 0 else FOR_EVER

    def replicas(self, timeout: float = 10.0) -> dict[str, list[int]]:
        """The number of replicas of each partition, by topic. Raises `EventLogUnavailable`."""
        topics = self._metadata(timeout).topics
        return {
            name: [len(topics[name].partitions[number].replicas) for number in sorted(topics[name].partitions)]
            for name in TOPICS
            if name in topics
        }

    def create_topics(self, *, partitions: int, replication: int | None, timeout: float = 15.0) -> list[str]:
        """Create the topics that are missing, keeping events for seven days; return their names.

        Without `replication` there are three replicas, or as many as there are brokers if fewer.
        """
        missing = self.missing_topics(timeout)
        if not missing:
            return []
        replication = replication or min(REPLICATION, len(self._metadata(timeout).brokers))
        configuration = {"retention.ms": str(SEVEN_DAYS_MS), "cleanup.policy": "delete"}
        if replication > 1:
            configuration["min.insync.replicas"] = str(replication - 1)
        wanted = [NewTopic(name, partitions, replication, config=configuration) for name in missing]
        for name, future in self._client.create_topics(wanted, request_timeout=timeout).items():
            try:
                future.result(timeout)
            except (KafkaException, FutureTimeout) as error:
                raise EventLogUnavailable(f"Kafka did not create {name}: {error}") from error
        return missing

    def _metadata(self, timeout: float) -> Any:
        try:
            return self._client.list_topics(timeout=timeout)
        except KafkaException as error:
            raise EventLogUnavailable("No Kafka broker answers") from error
