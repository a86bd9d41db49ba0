"""Kafka for the default run: the cluster built into librdkafka, in a process of its own.

`python -m config.embedded.kafka TOPIC...` speaks the real protocol over TCP, with consumer groups and idempotent
producers. Its log is in memory, the last 5 MB of each partition: what Kafka carries is derived from DynamoDB, and after
a restart clients catch up from there.
"""

import signal
import socket
import sys
import time
from collections.abc import Sequence
from typing import ClassVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from config.embedded.engine import PROBE_INTERVAL, Engine, Pause
from config.embedded.librdkafka import Cluster
from config.embedded.processes import ChildProcess, LineSink, ignore_line
from config.kernel.events import TOPICS

# This broker searches the whole log of each partition at every fetch: the fewer, the less it does in a long run.
PARTITIONS = 3
PROBE_TIMEOUT = 2.0
ANNOUNCEMENT = "Kafka listens on "
TAKE_DOWN = signal.SIGUSR1
BRING_UP = signal.SIGUSR2


class KafkaEngine(Engine):
    """One broker with the given topics. A restart moves it to another port and loses the log.

    `take_down` and `bring_up` make the broker go away and come back on the same port with everything it had.
    """

    name: ClassVar[str] = "kafka"

    def __init__(
        self, *, topics: Sequence[str] = TOPICS, log: LineSink = ignore_line, pause: Pause = time.sleep
    ) -> None:
        super().__init__(log=log, pause=pause)
        self._topics = topics
        self._address: str | None = None

    @property
    def endpoint(self) -> str:
        if self._address is None:
            raise RuntimeError("kafka has not said yet where it listens")
        return self._address

    def environment(self) -> dict[str, str]:
        # This broker holds a fetch for the whole wait instead of answering when a message arrives: the shorter, the
        # sooner a message is there, and the more an idle run uses (6 % of a core at this, 3 % at 5).
        return {"KAFKA_BOOTSTRAP_SERVERS": self.endpoint, "KAFKA_FETCH_WAIT_MS": "2"}

    def take_down(self) -> None:
        """Return when the broker refuses connections."""
        self.process.signal(TAKE_DOWN)
        while self._accepts():
            self._pause(PROBE_INTERVAL)

    def bring_up(self) -> None:
        """Return when the broker answers again."""
        self.process.signal(BRING_UP)
        self.wait_until_ready()

    def _launch(self) -> ChildProcess:
        self._address = None
        command = [sys.executable, "-m", "config.embedded.kafka", *self._topics]
        return ChildProcess(self.name, command, log=self._read)

    def _read(self, line: str) -> None:
        if line.startswith(ANNOUNCEMENT):
            self._address = line.removeprefix(ANNOUNCEMENT)
        else:
            self._log(line)

    def _answers(self) -> bool:
        if self._address is None or not self._accepts():
            return False
        try:
            return bool(AdminClient({"bootstrap.servers": self._address}).list_topics(timeout=PROBE_TIMEOUT).brokers)
        except KafkaException:
            return False

    def _accepts(self) -> bool:
        host, _, port = self.endpoint.partition(":")
        with socket.socket() as connection:
            return connection.connect_ex((host, int(port))) == 0


def main() -> None:
    """Run the cluster, and take its broker down and up when asked, until a signal ends the process."""
    asked = {TAKE_DOWN, BRING_UP}
    signal.pthread_sigmask(signal.SIG_BLOCK, asked)
    cluster = Cluster()
    for topic in sys.argv[1:]:
        cluster.create_topic(topic, partitions=PARTITIONS)
    sys.stdout.write(f"{ANNOUNCEMENT}{cluster.address}\n")
    sys.stdout.flush()
    while True:
        if signal.sigwait(asked) == TAKE_DOWN:
            cluster.take_down()
        else:
            cluster.bring_up()


if __name__ == "__main__":
    main()
