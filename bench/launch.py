"""Starts the system under test: the engines, one `web` or several, one `fanout`.

The engines are embedded, or external when `DYNAMODB_ENDPOINT_URL`, `KAFKA_BOOTSTRAP_SERVERS` and `REDIS_URL` are set.
"""

import os
import resource
import secrets
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path

import django

from bench.deployment import Deployment, Report
from dev.run import MANAGE, web_services
from engines.dynamodb import DynamoDbEngine
from engines.dynamolite.delay import AnswerDelay
from engines.health import get_status
from engines.kafka import KafkaEngine
from engines.ports import LOOPBACK, ReservedPort
from engines.processes import ChildProcess, ignore_line, stop_together
from engines.redis import RedisEngine
from engines.supervisor import Service
from foundation.kernel.events import TOPICS

FANOUT = "fanout"
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
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-bench-")))
        environment = {
            "DJANGO_SETTINGS_MODULE": "config.settings.embedded",
            "DATA_DIR": str(directory),
            "SECRET_KEY": secrets.token_urlsafe(48),
            **SETTINGS,
        }
        external = uses_external_engines()
        report(f"starting, with {'the engines of the environment' if external else 'embedded engines'}")
        engines = EmbeddedEngines(directory)
        if not external:
            stack.enter_context(engines.running())
            environment |= engines.environment
        os.environ.update(environment)
        _run(("create_tables",), environment)
        if external:
            _run(("create_topics", "--replication", "auto"), environment)
        services = Services(environment, report, None if external else engines)
        stack.callback(services.stop)
        services.start()
        django.setup()
        from config.wiring.web import web  # noqa: PLC0415 - after django.setup()

        parley = web()
        stack.callback(lambda: parley.clients.loop.run(parley.close()))
        yield Deployment(parley, services)


class EmbeddedEngines:
    def __init__(self, directory: Path) -> None:
        self._store = DynamoDbEngine(data_dir=directory)
        self._all = (self._store, KafkaEngine(topics=TOPICS), RedisEngine())

    @contextmanager
    def running(self) -> Iterator[None]:
        with ExitStack() as stack:
            for engine in self._all:
                stack.enter_context(engine)
            yield

    @property
    def environment(self) -> dict[str, str]:
        return {name: value for engine in self._all for name, value in engine.environment().items()}

    @property
    def pids(self) -> dict[str, list[int]]:
        return {engine.name: [engine.process.pid] for engine in self._all}

    def delay_store(self, delay: AnswerDelay | None) -> None:
        """Restart DynamoDB, which keeps its port and its data."""
        self._store.stop()
        self._store.delay = delay
        self._store.start()
        self._store.wait_until_ready()


class Services:
    """The `web` and `fanout` processes, and the engines unless they are external."""

    def __init__(self, environment: dict[str, str], report: Report, engines: EmbeddedEngines | None) -> None:
        self._environment = environment
        self._report = report
        self._engines = engines
        self._stack = ExitStack()
        self._port, self._fanout_port = (self._stack.enter_context(ReservedPort()) for _ in range(2))
        self._own_ports = ExitStack()
        self._webs: list[Service] = []
        self._children: dict[str, ChildProcess] = {}

    @property
    def engines(self) -> str:
        return "external" if self._engines is None else "embedded"

    @property
    def url(self) -> str:
        return f"ws://{LOOPBACK}:{self._port.number}/ws"

    @property
    def metrics(self) -> dict[str, str]:
        """The metrics endpoint of each."""
        ports = {web.name: web.ports[-1].number for web in self._webs} | {FANOUT: self._fanout_port.number}
        return {name: f"http://{LOOPBACK}:{port}/metrics" for name, port in ports.items()}

    @property
    def pids(self) -> dict[str, list[int]]:
        """By kind: of `web` and of the engines too, where they are ours."""
        webs = [self._children[web.name].pid for web in self._webs]
        engines = {} if self._engines is None else self._engines.pids
        return {**engines, "web": webs, FANOUT: [self._children[FANOUT].pid]}

    def start(self) -> None:
        """Return when all are ready."""
        self._fanout_port.hand_over()
        fanout = Service(FANOUT, (*MANAGE, FANOUT, "--metrics-port", str(self._fanout_port.number)))
        self._start(fanout)
        self._start_webs(1)
        self._wait(FANOUT, self._fanout_port.number, "/metrics")

    def restart_web(self, *, count: int = 1) -> None:
        """Stop all and start `count`, behind the same port."""
        stop_together([self._children.pop(web.name) for web in self._webs], grace=STOP_GRACE)
        self._own_ports.close()
        self._start_webs(count)

    def delay_store(self, delay: AnswerDelay | None) -> None:
        """Make the embedded store's answers wait. External engines stay as they are."""
        if self._engines is not None:
            self._engines.delay_store(delay)

    def stop(self) -> None:
        stop_together(list(self._children.values()), grace=STOP_GRACE)
        self._own_ports.close()
        self._stack.close()

    def _start_webs(self, count: int) -> None:
        self._webs = list(web_services(count, self._port, self._own_ports))
        for web in self._webs:
            for port in web.ports:
                port.hand_over()
            self._start(web)
        for web in self._webs:
            self._wait(web.name, web.ports[-1].number, "/readyz")

    def _start(self, service: Service) -> None:
        environment = {**self._environment, **service.environment}
        log = _warnings_only(service.name, self._report)
        self._children[service.name] = ChildProcess(service.name, service.command, environment=environment, log=log)

    def _wait(self, name: str, port: int, path: str) -> None:
        """Raises `RuntimeError` if the process exits or is not ready in time."""
        child, deadline = self._children[name], time.monotonic() + READY_TIMEOUT
        while get_status(port, path) != HTTPStatus.OK:
            if child.status is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name} did not become ready: {' '.join(child.last_lines)[-300:]}")
            time.sleep(0.05)


def uses_external_engines() -> bool:
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
