"""Kafka as an engine: `kafkalite`, with its log in memory."""

import socket
import sys
import time
from collections.abc import Sequence
from typing import ClassVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from engines.engine import HEALTH_CHECK_INTERVAL, OnePortEngine
from engines.kafkalite.signals import BRING_UP, TAKE_DOWN
from engines.ports import LOOPBACK
from engines.processes import ChildProcess

PARTITIONS = 3
HEALTH_CHECK_TIMEOUT = 2.0  # seconds


class KafkaEngine(OnePortEngine):
    """One broker with the given topics. A restart keeps the port and loses the log.

    `take_down` closes its port and all connections, `bring_up` opens the port again; the log stays.
    """

    name: ClassVar[str] = "kafka"

    def __init__(self, *, topics: Sequence[str]) -> None:
        super().__init__()
        self._topics = topics

    @property
    def endpoint(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def environment(self) -> dict[str, str]:
        return {"KAFKA_BOOTSTRAP_SERVERS": self.endpoint}

    def take_down(self) -> None:
        """Return when the broker refuses connections."""
        self.process.signal(TAKE_DOWN)
        while self._accepts():
            time.sleep(HEALTH_CHECK_INTERVAL)

    def bring_up(self) -> None:
        """Return when the broker answers again."""
        self.process.signal(BRING_UP)
        self.wait_until_ready()

    def _launch(self) -> ChildProcess:
        command = [sys.executable, "-m", "engines.kafkalite", "--host", LOOPBACK]
        command += ["--port", str(self.port), "--partitions", str(PARTITIONS), *self._topics]
        self._port.hand_over()
        return ChildProcess(self.name, command, log=self._log)

    def _answers(self) -> bool:
        if not self._accepts():
            return False
        try:
            return bool(
                AdminClient({"bootstrap.servers": self.endpoint}).list_topics(timeout=HEALTH_CHECK_TIMEOUT).brokers
            )
        except KafkaException:
            return False

    def _accepts(self) -> bool:
        with socket.socket() as connection:
            return connection.connect_ex((LOOPBACK, self.port)) == 0
