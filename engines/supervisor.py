"""`manage.py dev`: engines, tables, topics, `web` and `fanout` as one run that starts, stops and fails as a whole.

Stop order is the reverse of dependence: our own processes first, so that they can finish their work, then the engines.
"""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path

from engines.console import Console
from engines.data_directory import describe_engines, exclusive_directory
from engines.dynamodb import DynamoDbEngine
from engines.engine import STOP_GRACE, Engine
from engines.errors import ServiceFailed, describe_exit
from engines.external import describe_external
from engines.kafka import KafkaEngine
from engines.ports import LOOPBACK, ReservedPort
from engines.probe import get_status
from engines.processes import PROJECT_ROOT, ChildProcess, stop_together
from engines.redis import RedisEngine
from engines.watch import StopRequested, Watch

SETTINGS = "config.settings.embedded"
MANAGE = (sys.executable, str(PROJECT_ROOT / "manage.py"))
READY_WITHIN = 60.0
POLL_INTERVAL = 0.05
SERVICE_GRACE = 15.0
"""`web` spreads its goodbyes over a few seconds."""


class EngineSource(StrEnum):
    EMBEDDED = "embedded"
    """Started and stopped with the run."""
    EXTERNAL = "external"
    """Run by somebody else, and named by the environment."""


@dataclass(frozen=True)
class RunPlan:
    """What a run is asked to be. Port 0 means any free one."""

    port: int
    data_dir: Path
    with_fanout: bool
    engines: EngineSource = EngineSource.EMBEDDED


class Supervisor:
    """One run, from the first engine to the last."""

    def __init__(self, plan: RunPlan, console: Console) -> None:
        self._plan = plan
        self._console = console
        self._log = console.sink("dev")
        self._watch = Watch()
        self._engines: list[Engine] = []
        self._services: list[ChildProcess] = []

    def run(self) -> None:
        """Return when somebody asked to stop and all is stopped. Raises a `CannotRun` in every other case."""
        with (
            exclusive_directory(self._plan.data_dir) as directory,
            ReservedPort(self._plan.port) as port,
            self._watch.over_signals(),
        ):
            try:
                self._start(directory, port)
                self._watch.pause(None)
            except StopRequested:
                self._log("Stopping; press Ctrl-C again to stop at once.")
            finally:
                self._stop()

    def _start(self, directory: Path, port: ReservedPort) -> None:
        environment = {"DJANGO_SETTINGS_MODULE": SETTINGS, "DATA_DIR": str(directory), "PYTHONUNBUFFERED": "1"}
        if self._plan.engines is EngineSource.EMBEDDED:
            environment |= self._start_engines(directory)
        else:
            self._name_external_engines()
        self._prepare("tables", (*MANAGE, "create_tables"), environment)
        if self._plan.engines is EngineSource.EXTERNAL:
            self._prepare("topics", (*MANAGE, "create_topics", "--replication", "auto"), environment)
        port.hand_over()
        address = ("--host", LOOPBACK, "--port", str(port.number))
        self._start_service("web", (*MANAGE, "web", *address), environment)
        if self._plan.with_fanout:
            self._start_service("fanout", (*MANAGE, "fanout"), environment)
        self._wait_for_web(port.number)
        self._console.announce(f"Parley is ready on http://{LOOPBACK}:{port.number}")

    def _start_engines(self, directory: Path) -> dict[str, str]:
        """Start all, then wait for all, and return the environment by which to use them."""
        pause, sink = self._watch.pause, self._console.sink
        self._engines = [
            RedisEngine(log=sink("redis"), pause=pause),
            KafkaEngine(log=sink("kafka"), pause=pause),
            DynamoDbEngine(data_dir=directory, log=sink("dynamodb"), pause=pause),
        ]
        for engine in self._engines:
            engine.start()
        environment: dict[str, str] = {}
        for engine in self._engines:
            endpoint = engine.wait_until_ready()
            self._watch.over(engine.process)
            self._log(f"{engine.name} is ready on {endpoint} (process {engine.process.pid})")
            environment |= engine.environment()
        describe_engines(directory, self._engines)
        return environment

    def _name_external_engines(self) -> None:
        for name, place in describe_external(os.environ).items():
            self._log(f"{name} is external: {place}")

    def _prepare(self, name: str, command: Sequence[str], environment: dict[str, str]) -> None:
        """Run a command that ends by itself. Raises `ServiceFailed` when it fails."""
        preparation = ChildProcess(name, command, environment=environment, log=self._console.sink(name))
        self._services.append(preparation)
        while preparation.status is None:
            self._watch.pause(POLL_INTERVAL)
        if (status := preparation.wait()) != 0:
            raise ServiceFailed(f"`manage.py {command[2]}` {describe_exit(status)}; its lines above may tell why.")

    def _start_service(self, name: str, command: Sequence[str], environment: dict[str, str]) -> None:
        service = ChildProcess(name, command, environment=environment, log=self._console.sink(name))
        self._services.append(service)
        self._watch.over(service)

    def _wait_for_web(self, port: int) -> None:
        deadline = time.monotonic() + READY_WITHIN
        while (status := get_status(port, "/readyz")) != HTTPStatus.OK:
            if time.monotonic() > deadline:
                answer = "no answer" if status is None else f"status {status}"
                raise ServiceFailed(f"web was not ready within {READY_WITHIN:.0f} s: /readyz gave {answer}.")
            self._watch.pause(POLL_INTERVAL)

    def _stop(self) -> None:
        hurry = self._watch.is_stop_requested
        stop_together(self._services, grace=SERVICE_GRACE, hurry=hurry)
        started = [engine.process for engine in self._engines if engine.is_started]
        stop_together(started, grace=STOP_GRACE, hurry=hurry)
        for engine in self._engines:
            engine.close()
