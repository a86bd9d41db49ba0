"""Apache Kafka in KRaft mode: each node is broker and controller, its log in a temporary directory."""

import atexit
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from engines.engine import Engine, Wait
from engines.kafka import HEALTH_CHECK_TIMEOUT
from engines.ports import LOOPBACK, ReservedPort
from engines.processes import ChildProcess
from foundation.kernel.events import TOPICS
from foundation.stores.kafka import EventLogAdmin, KafkaOptions
from tests.engines.java import KAFKA, file_log, java_command, provide_libraries, run_to_end

PARTITIONS = 12
CLUSTER_ID = "cGFybGV5LXRlc3RzLTAwMQ"
LOGGING = {
    "org.slf4j.simpleLogger.defaultLogLevel": "info",
    "org.slf4j.simpleLogger.showDateTime": "true",
    "org.slf4j.simpleLogger.dateTimeFormat": "HH:mm:ss.SSS",
    "org.slf4j.simpleLogger.log.org.apache.kafka.common.config": "warn",
}


class Quorum:
    """The nodes of a cluster. Every node needs the addresses of all before the first one starts."""

    def __init__(self, size: int = 1) -> None:
        self.size = size
        self._clients = [ReservedPort() for _ in range(size)]
        self._controllers = [ReservedPort() for _ in range(size)]

    def client_address(self, node: int) -> str:
        return f"{LOOPBACK}:{self._clients[node - 1].number}"

    def controller_address(self, node: int) -> str:
        return f"{LOOPBACK}:{self._controllers[node - 1].number}"

    @property
    def voters(self) -> str:
        return ",".join(f"{node}@{self.controller_address(node)}" for node in range(1, self.size + 1))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self.client_address(node) for node in range(1, self.size + 1))

    def hand_over(self, node: int) -> None:
        self._clients[node - 1].hand_over()
        self._controllers[node - 1].hand_over()

    def release(self) -> None:
        for port in (*self._clients, *self._controllers):
            port.release()


class ApacheKafka(Engine):
    """One node, by default the only one of its cluster, with the given topics.

    A restart keeps the port and the log, as `take_down` and `bring_up` do. `settings` are broker properties.
    """

    name: ClassVar[str] = "kafka"
    ready_within: ClassVar[float] = 60.0  # seconds

    def __init__(
        self,
        *,
        topics: Sequence[str] = TOPICS,
        quorum: Quorum | None = None,
        node: int = 1,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._log = file_log(f"kafka-{node}")
        self._topics = topics
        self._quorum = quorum or Quorum()
        self._node = node
        self._settings = settings or {}
        self._directory: Path | None = None

    @property
    def endpoint(self) -> str:
        return self._quorum.client_address(self._node)

    def environment(self) -> dict[str, str]:
        return {"KAFKA_BOOTSTRAP_SERVERS": self._quorum.bootstrap_servers}

    def wait_until_ready(self, *, wait: Wait = time.sleep) -> str:
        """Return the endpoint once the broker answers and its topics exist. Raises `EngineFailed`."""
        endpoint = super().wait_until_ready(wait=wait)
        if self._topics:
            EventLogAdmin(KafkaOptions(bootstrap_servers=endpoint)).create_topics(partitions=PARTITIONS, replication=1)
        return endpoint

    def take_down(self) -> None:
        """Return when the broker refuses connections."""
        self.kill()

    def bring_up(self) -> None:
        """Return when the broker answers again."""
        self.start()
        self.wait_until_ready()

    def close(self) -> None:
        super().close()
        self._quorum.release()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def _launch(self) -> ChildProcess:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="parley-kafka-"))
            self._format(self._directory / "log")
        properties = self._directory / "server.properties"
        properties.write_text(as_properties(self._properties(self._directory / "log")))
        self._quorum.hand_over(self._node)
        command = java_command(provide_libraries(KAFKA), "kafka.Kafka", str(properties), options=LOGGING)
        return ChildProcess(self.name, command, log=self._log)

    def _format(self, directory: Path) -> None:
        shutil.copytree(_formatted(self._node), directory)

    def _properties(self, directory: Path) -> dict[str, Any]:
        replicas = self._quorum.size
        listeners = f"CLIENT://{self.endpoint},CONTROLLER://{self._quorum.controller_address(self._node)}"
        return {
            "process.roles": "broker,controller",
            "node.id": self._node,
            "controller.quorum.voters": self._quorum.voters,
            "listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "CLIENT",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": directory,
            # Only `create_topics` creates topics.
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": 4,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.num.partitions": 4,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": max(1, replicas - 1),
            # Otherwise the first consumer of a group waits three seconds for others to join it.
            "group.initial.rebalance.delay.ms": 0,
            # Otherwise a killed broker may come back only after nine seconds.
            "broker.session.timeout.ms": 3000,
            "broker.heartbeat.interval.ms": 500,
            **self._settings,
        }

    def _answers(self) -> bool:
        try:
            client = AdminClient({"bootstrap.servers": self.endpoint, "log_level": 0})
            return self._node in client.list_topics(timeout=HEALTH_CHECK_TIMEOUT).brokers
        except KafkaException:
            return False


def as_properties(values: Mapping[str, Any]) -> str:
    return "".join(f"{name}={value}\n" for name, value in values.items())


def format_directory(directory: Path, node: int, *options: str) -> None:
    """Prepare a node's log directory as an operator does, with the tool that comes with Kafka."""
    description = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": f"{node}@{LOOPBACK}:1",
        "listeners": f"CLIENT://{LOOPBACK}:2,CONTROLLER://{LOOPBACK}:1",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENT",
        "log.dirs": directory,
    }
    properties = directory.with_suffix(".properties")
    properties.write_text(as_properties(description))
    arguments = ("format", "--cluster-id", CLUSTER_ID, "--config", str(properties), *options)
    run_to_end(java_command(provide_libraries(KAFKA), "kafka.tools.StorageTool", *arguments))


@cache
def _formatted(node: int) -> Path:
    """A prepared directory to copy: preparing takes a second and a half, which each engine need not wait for."""
    place = Path(tempfile.mkdtemp(prefix="parley-kafka-format-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    directory = place / f"node-{node}"
    format_directory(directory, node)
    return directory
