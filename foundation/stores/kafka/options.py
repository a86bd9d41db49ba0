"""Options of the Kafka clients."""

import logging
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """Where Kafka is. `publish_timeout` in seconds; `extra` is passed to librdkafka unchanged (TLS, SASL)."""

    bootstrap_servers: str
    publish_timeout: float = 5.0
    fetch_wait_ms: int = 500
    session_timeout_ms: int = 10_000
    extra: dict[str, Any] = field(default_factory=dict)

    def common(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "socket.connection.setup.timeout.ms": 3000,
            "reconnect.backoff.max.ms": 2000,
            # A topic that a broker creates has its default number of partitions and replicas, often one.
            "allow.auto.create.topics": False,
            "logger": logging.getLogger("kafka"),
            **self.extra,
        }
