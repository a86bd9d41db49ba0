"""What `manage.py dev` runs: the engines, the tables and topics, `web` and `fanout`."""

import os
import secrets
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from engines.console import Console
from engines.data_directory import exclusive_directory
from engines.dynamodb import DynamoDbEngine
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


def run_dev(*, port: int, data_dir: Path, source: EngineSource, console: Console) -> None:
    """Run until a stop signal. Port 0 means any free one. Raises a `CannotRun`."""
    with exclusive_directory(data_dir) as directory, ReservedPort(port) as reserved:
        _create_secret(directory)
        if source is EngineSource.EXTERNAL:
            _log_external(os.environ, console)
        Supervisor(make_plan(directory, reserved, source), console).run()


def make_plan(directory: Path, port: ReservedPort, source: EngineSource) -> RunPlan:
    is_embedded = source is EngineSource.EMBEDDED
    tables = Preparation("tables", (*MANAGE, "create_tables"))
    topics = Preparation("topics", (*MANAGE, "create_topics", "--replication", "auto"))
    address = ("--host", LOOPBACK, "--port", str(port.number))
    return RunPlan(
        name=NAME,
        directory=directory,
        engines=(RedisEngine(), KafkaEngine(topics=TOPICS), DynamoDbEngine(data_dir=directory)) if is_embedded else (),
        # kafkalite creates its topics itself.
        preparations=(tables,) if is_embedded else (tables, topics),
        services=(
            Service("web", (*MANAGE, "web", *address), port=port, ready_path="/readyz"),
            Service("fanout", (*MANAGE, "fanout")),
        ),
        environment={
            "DJANGO_SETTINGS_MODULE": "config.settings.embedded",
            "DATA_DIR": str(directory),
            "PYTHONUNBUFFERED": "1",
        },
        ready_line=f"Parley is ready on http://{LOOPBACK}:{port.number}",
    )


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
