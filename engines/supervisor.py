"""The supervisor: runs engines, preparations and services as one run that starts, stops and fails as a whole.

One exception: a service may exit while another of its kind runs, which then serves alone.
It stops in the reverse order of dependence: services first, so that they can finish their work, then the engines.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from engines.console import Console
from engines.data_directory import describe_engines
from engines.engine import STOP_GRACE, Engine
from engines.errors import ChildExited, ServiceFailed, describe_exit
from engines.health import get_status
from engines.interrupts import Interrupts, StopRequested
from engines.ports import LOOPBACK, ReservedPort
from engines.processes import ChildProcess, stop_together

POLL_INTERVAL = 0.05  # seconds
READY_TIMEOUT = 60.0  # seconds
SERVICE_GRACE = 15.0  # seconds before a service is killed


@dataclass(frozen=True)
class Preparation:
    """A command that ends. It must succeed before anything after it starts."""

    name: str
    command: Sequence[str]


@dataclass(frozen=True)
class Service:
    """A command that runs until the end of the run, listens on `ports`, and has `environment` besides the plan's.

    With a `ready_path` it is ready once a GET of that path on the last port, which it shares with no other service,
    returns 200; else as soon as it has started. Services of one `kind` do the same work.
    """

    name: str
    command: Sequence[str]
    ports: Sequence[ReservedPort] = ()
    ready_path: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    kind: str | None = None


@dataclass(frozen=True)
class RunPlan:
    """What to run. `environment` and the variables of the engines are set for all preparations and services.

    `directory` is where `engines.json` is written; `ready_line` is printed once all services are ready.
    """

    name: str
    directory: Path
    ready_line: str
    engines: Sequence[Engine] = ()
    preparations: Sequence[Preparation] = ()
    services: Sequence[Service] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


class Supervisor:
    """Runs one plan."""

    def __init__(self, plan: RunPlan, console: Console) -> None:
        self._plan = plan
        self._console = console
        self._log = console.sink(plan.name)
        self._interrupts = Interrupts()
        self._environment = dict(plan.environment)
        self._children: list[ChildProcess] = []

    def run(self) -> None:
        """Return after a stop signal, once everything has stopped. Raises a `CannotRun` in every other case."""
        with self._interrupts.handle_signals():
            try:
                self._start_engines()
                for preparation in self._plan.preparations:
                    self._prepare(preparation)
                self._start_services()
                self._console.write(self._plan.ready_line)
                self._wait_for_end()
            except StopRequested:
                self._log("Stopping; press Ctrl-C again to stop at once.")
            finally:
                self._stop()

    def _start_engines(self) -> None:
        """Start all, then wait for all."""
        for engine in self._plan.engines:
            engine.start(log=self._console.sink(engine.name))
        for engine in self._plan.engines:
            endpoint = engine.wait_until_ready(wait=self._interrupts.wait)
            self._interrupts.watch(engine.process)
            self._log(f"{engine.name} is ready on {endpoint} (process {engine.process.pid})")
            self._environment |= engine.environment()
        if self._plan.engines:
            describe_engines(self._plan.directory, self._plan.engines)

    def _prepare(self, preparation: Preparation) -> None:
        child = self._start_child(preparation)
        while child.status is None:
            self._interrupts.wait(POLL_INTERVAL)
        if (status := child.wait()) != 0:
            raise ServiceFailed(f"{preparation.name} {describe_exit(status)}; see its log lines above.")

    def _start_services(self) -> None:
        """Start all, then wait for all."""
        started: list[tuple[Service, ChildProcess]] = []
        for service in self._plan.services:
            for port in service.ports:
                port.hand_over()
            child = self._start_child(service, **service.environment)
            self._interrupts.watch(child)
            started.append((service, child))
        for service, child in started:
            if service.ready_path is not None:
                number = service.ports[-1].number
                self._wait_until_ready(service.name, number, service.ready_path)
                self._log(f"{service.name} is ready on http://{LOOPBACK}:{number} (process {child.pid})")

    def _wait_for_end(self) -> None:
        """Raises `StopRequested`, or `ChildExited` for a child that no other one stands in for."""
        while True:
            try:
                self._interrupts.wait(None)
            except ChildExited as exited:
                if not self._is_redundant(exited.name):
                    raise
                self._log(f"{exited.exit}; the others of its kind go on without it.")

    def _is_redundant(self, name: str) -> bool:
        """Whether another service of the same kind runs."""
        kinds = {service.name: service.kind for service in self._plan.services}
        kind = kinds.get(name)
        return kind is not None and any(
            kinds.get(child.name) == kind and child.status is None for child in self._children
        )

    def _start_child(self, task: Preparation | Service, **environment: str) -> ChildProcess:
        log = self._console.sink(task.name)
        child = ChildProcess(task.name, task.command, environment=self._environment | environment, log=log)
        self._children.append(child)
        return child

    def _wait_until_ready(self, name: str, port: int, path: str) -> None:
        deadline = time.monotonic() + READY_TIMEOUT
        while (status := get_status(port, path)) != HTTPStatus.OK:
            if time.monotonic() > deadline:
                response = "no response" if status is None else f"status {status}"
                raise ServiceFailed(f"{name} was not ready within {READY_TIMEOUT:.0f} s: {path} gave {response}.")
            self._interrupts.wait(POLL_INTERVAL)

    def _stop(self) -> None:
        kill_now = self._interrupts.is_stop_requested
        stop_together(self._children, grace=SERVICE_GRACE, kill_now=kill_now)
        engines = [engine.process for engine in self._plan.engines if engine.is_started]
        stop_together(engines, grace=STOP_GRACE, kill_now=kill_now)
        for engine in self._plan.engines:
            engine.close()
