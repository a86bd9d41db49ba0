"""Starts the system under test: the engines, one `web` and one `fanout`.

The engines are embedded, or external when `DYNAMODB_ENDPOINT_URL`, `KAFKA_BOOTSTRAP_SERVERS` and `REDIS_URL` are set.
"""

import os
import resource
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path

import django

from bench.deployment import Deployment, Report
from engines.dynamodb import DynamoDbEngine
from engines.health import get_status
from engines.kafka import KafkaEngine
from engines.ports import LOOPBACK, ReservedPort
from engines.processes import PROJECT_ROOT, ChildProcess, ignore_line, stop_together
from engines.redis import RedisEngine
from foundation.kernel.events import TOPICS

MANAGE = (sys.executable, str(PROJECT_ROOT / "manage.py"))
EXTERNAL = ("DYNAMODB_ENDPOINT_URL", "KAFKA_BOOTSTRAP_SERVERS", "REDIS_URL")
SETTINGS = {"SEND_RATE": "1000000", "SEND_BURST": "1000000", "LOG_LEVEL": "WARNING"}
"""No rate limit per sender."""
STOP_GRACE, READY_TIMEOUT = 15.0, 60.0
MAX_WARNINGS = 5


@contextmanager
def running(report: Report) -> Iterator[Deployment]:
    """Run Parley for the length of the block. Raises `SystemExit` if only some of the engines' variables are set."""
    _raise_file_limit()
    with ExitStack() as stack:
        engine_pids: dict[str, int] = {}
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-bench-")))
        environment = {
            "DJANGO_SETTINGS_MODULE": "config.settings.embedded",
            "DATA_DIR": str(directory),
            "SECRET_KEY": secrets.token_urlsafe(48),
            **SETTINGS,
        }
        external = _uses_external_engines()
        report(f"starting, with {'the engines of the environment' if external else 'embedded engines'}")
        if not external:
            for engine in (DynamoDbEngine(data_dir=directory), KafkaEngine(topics=TOPICS), RedisEngine()):
                stack.enter_context(engine)
                environment |= engine.environment()
                engine_pids[engine.name] = engine.process.pid
        os.environ.update(environment)
        _run(("create_tables",), environment)
        if external:
            _run(("create_topics", "--replication", "auto"), environment)
        services = Services(environment, report)
        stack.callback(services.stop)
        services.start()
        django.setup()
        from config.wiring.web import web  # noqa: PLC0415 - after django.setup()

        parley = web()
        stack.callback(lambda: parley.clients.loop.run(parley.close()))
        yield Deployment(parley, services, engine_pids, engines="external" if external else "embedded")


class Services:
    """The `web` and `fanout` processes."""

    def __init__(self, environment: dict[str, str], report: Report) -> None:
        self._environment = environment
        self._report = report
        self._ports = (ReservedPort(), ReservedPort())
        self._web, self._fanout = (port.number for port in self._ports)
        self._children: dict[str, ChildProcess] = {}

    @property
    def url(self) -> str:
        return f"ws://{LOOPBACK}:{self._web}/ws"

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics endpoint of each."""
        return tuple(f"http://{LOOPBACK}:{port}/metrics" for port in (self._web, self._fanout))

    @property
    def pids(self) -> dict[str, int]:
        return {name: child.pid for name, child in self._children.items()}

    def start(self) -> None:
        """Return when both are ready."""
        for port in self._ports:
            port.hand_over()
        self._start("web", "--port", str(self._web))
        self._start("fanout", "--metrics-port", str(self._fanout))
        self._wait("web", self._web, "/readyz")
        self._wait("fanout", self._fanout, "/metrics")

    def restart_web(self) -> None:
        stop_together([self._children["web"]], grace=STOP_GRACE)
        self._start("web", "--port", str(self._web))
        self._wait("web", self._web, "/readyz")

    def stop(self) -> None:
        stop_together(list(self._children.values()), grace=STOP_GRACE)
        for port in self._ports:
            port.release()

    def _start(self, name: str, *arguments: str) -> None:
        command = (*MANAGE, name, *arguments)
        log = _warnings_only(name, self._report)
        self._children[name] = ChildProcess(name, command, environment=self._environment, log=log)

    def _wait(self, name: str, port: int, path: str) -> None:
        """Raises `RuntimeError` if the process exits or is not ready in time."""
        child, deadline = self._children[name], time.monotonic() + READY_TIMEOUT
        while get_status(port, path) != HTTPStatus.OK:
            if child.status is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name} did not become ready: {' '.join(child.last_lines)[-300:]}")
            time.sleep(0.05)


def _uses_external_engines() -> bool:
    """Whether all of `EXTERNAL` are set. Raises `SystemExit` if only some are."""
    named = [name for name in EXTERNAL if os.environ.get(name)]
    if named and len(named) < len(EXTERNAL):
        raise SystemExit(f"{', '.join(named)} set, but not {', '.join(sorted(set(EXTERNAL) - set(named)))}")
    return bool(named)


def _raise_file_limit() -> None:
    """Allow as many open sockets as the hard limit, for this process and its children."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _warnings_only(name: str, report: Report) -> Report:
    """A sink that reports the first `MAX_WARNINGS` warnings and errors of a process."""
    count = 0

    def log(line: str) -> None:
        nonlocal count
        if "WARNING" in line or "ERROR" in line or "Traceback" in line:
            count += 1
            if count <= MAX_WARNINGS:
                more = "" if count < MAX_WARNINGS else " (no more are shown)"
                report(f"  {name}: {line[:300]}{more}")

    return log


def _run(command: Sequence[str], environment: dict[str, str]) -> None:
    child = ChildProcess(command[0], (*MANAGE, *command), environment=environment, log=ignore_line)
    if child.wait() != 0:
        raise RuntimeError(f"manage.py {command[0]} failed: {' '.join(child.last_lines)[-300:]}")
