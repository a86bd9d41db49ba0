"""Kafka for the default run: `kafkalite`, our own, in memory."""

import socket
import sys
import time
from collections.abc import Sequence
from typing import ClassVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from engines.engine import PROBE_INTERVAL, Engine, Pause
from engines.kafkalite.signals import BRING_UP, TAKE_DOWN
from engines.ports import LOOPBACK, ReservedPort
from engines.processes import ChildProcess, LineSink, ignore_line
from foundation.kernel.events import TOPICS

PARTITIONS = 3
PROBE_TIMEOUT = 2.0


class KafkaEngine(Engine):
    """One broker with the given topics. A restart keeps the port and loses the log.

    `take_down` and `bring_up` make the broker go away and come back with everything it had.
    """

    name: ClassVar[str] = "kafka"

    def __init__(
        self, *, topics: Sequence[str] = TOPICS, log: LineSink = ignore_line, pause: Pause = time.sleep
    ) -> None:
        super().__init__(log=log, pause=pause)
        self._topics = topics
        self._port = ReservedPort()

    @property
    def endpoint(self) -> str:
        return f"{LOOPBACK}:{self._port.number}"

    def environment(self) -> dict[str, str]:
        return {"KAFKA_BOOTSTRAP_SERVERS": self.endpoint}

    def take_down(self) -> None:
        """Return when the broker refuses connections."""
        self.process.signal(TAKE_DOWN)
        while self._accepts():
            self._pause(PROBE_INTERVAL)

    def bring_up(self) -> None:
        """Return when the broker answers again."""
        self.process.signal(BRING_UP)
        self.wait_until_ready()

    def close(self) -> None:
        super().close()
        self._port.release()

    def _launch(self) -> ChildProcess:
        command = [sys.executable, "-m", "engines.kafkalite", "--host", LOOPBACK]
        command += ["--port", str(self._port.number), "--partitions", str(PARTITIONS), *self._topics]
        self._port.hand_over()
        return ChildProcess(self.name, command, log=self._log)

    def _answers(self) -> bool:
        if not self._accepts():
            return False
        try:
            return bool(AdminClient({"bootstrap.servers": self.endpoint}).list_topics(timeout=PROBE_TIMEOUT).brokers)
        except KafkaException:
            return False

    def _accepts(self) -> bool:
        with socket.socket() as connection:
            return connection.connect_ex((LOOPBACK, self._port.number)) == 0
