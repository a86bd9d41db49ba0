"""What `manage.py dev` runs: the engines, the tables and topics, `web` and `fanout`."""

import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from engines.console import Console
from engines.data_directory import exclusive_directory
from engines.dynamodb import DynamoDbEngine
from engines.dynamolite.delay import AnswerDelay
from engines.engine import Engine
from engines.external import describe_external
from engines.kafka import KafkaEngine
from engines.ports import LOOPBACK, ReservedPort
from engines.processes import PROJECT_ROOT
from engines.redis import RedisEngine
from engines.supervisor import Preparation, RunPlan, Service, Supervisor
from foundation.kernel.events import TOPICS

NAME = "dev"
MANAGE = (sys.executable, str(PROJECT_ROOT / "manage.py"))


class EngineSource(StrEnum):
    EMBEDDED = "embedded"
    """Started and stopped with the run."""
    EXTERNAL = "external"
    """Found by the environment."""


@dataclass(frozen=True)
class DevOptions:
    """Port 0 means any free one. With several `webs`, each has a port of its own too, from `admin_port` on."""

    port: int
    data_dir: Path
    source: EngineSource = EngineSource.EMBEDDED
    webs: int = 1
    fanouts: int = 1
    admin_port: int | None = None
    store_delay: AnswerDelay | None = None


def run_dev(options: DevOptions, console: Console) -> None:
    """Run until a stop signal. Raises a `CannotRun`."""
    with exclusive_directory(options.data_dir) as directory, ExitStack() as ports:
        _create_secret(directory)
        if options.source is EngineSource.EXTERNAL:
            _log_external(os.environ, console)
        port = ports.enter_context(ReservedPort(options.port))
        webs = list(web_services(options.webs, port, ports, admin_port=options.admin_port))
        Supervisor(_make_plan(directory, options, port, webs), console).run()


def _make_plan(directory: Path, options: DevOptions, port: ReservedPort, webs: list[Service]) -> RunPlan:
    is_embedded = options.source is EngineSource.EMBEDDED
    staff = Preparation("staff", (*MANAGE, "migrate", "--verbosity", "0"))
    tables = Preparation("tables", (*MANAGE, "create_tables"))
    topics = Preparation("topics", (*MANAGE, "create_topics", "--replication", "auto"))
    return RunPlan(
        name=NAME,
        directory=directory,
        engines=_embedded_engines(directory, options) if is_embedded else (),
        # kafkalite creates its topics itself.
        preparations=(staff, tables) if is_embedded else (staff, tables, topics),
        services=(
            *webs,
            *(Service(name, (*MANAGE, "fanout"), kind="fanout") for name in _names("fanout", options.fanouts)),
        ),
        environment={
            "DJANGO_SETTINGS_MODULE": "config.settings.embedded",
            "DATA_DIR": str(directory),
            "PYTHONUNBUFFERED": "1",
        },
        ready_line=f"Parley is ready on http://{LOOPBACK}:{port.number}",
    )


def _embedded_engines(directory: Path, options: DevOptions) -> tuple[Engine, ...]:
    store = DynamoDbEngine(data_dir=directory, delay=options.store_delay)
    return RedisEngine(), KafkaEngine(topics=TOPICS), store


def web_services(
    count: int, port: ReservedPort, ports: ExitStack, *, admin_port: int | None = None
) -> Iterator[Service]:
    """One process listens on `port`. Several share it, and each also has a port of its own, reserved until `ports` end.

    Those begin at `admin_port`, or are any free ones.
    """
    command = (*MANAGE, "web", "--host", LOOPBACK, "--port", str(port.number))
    if count == 1:
        yield Service("web", command, ports=(port,), ready_path="/readyz")
        return
    for number, name in enumerate(_names("web", count)):
        own = ports.enter_context(ReservedPort(admin_port + number if admin_port else 0))
        environment = {"ADMIN_HOST": LOOPBACK, "ADMIN_PORT": str(own.number)}
        yield Service(
            name,
            (*command, "--reuse-port"),
            ports=(port, own),
            ready_path="/readyz",
            environment=environment,
            kind="web",
        )


def _names(kind: str, count: int) -> list[str]:
    return [kind] if count == 1 else [f"{kind}-{number}" for number in range(1, count + 1)]


def _create_secret(directory: Path) -> None:
    """Give a new data directory its own secret, so that logins survive a restart."""
    path = directory / "secret"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(48))


def _log_external(environment: Mapping[str, str], console: Console) -> None:
    log = console.sink(NAME)
    for name, address in describe_external(environment).items():
        log(f"{name} is external: {address}")
