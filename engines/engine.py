"""The base class of the engines: start, readiness, stop."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import ClassVar, TypeAlias

from engines.errors import EngineFailed, describe_exit
from engines.ports import ReservedPort
from engines.processes import ChildProcess, LineSink, ignore_line, stop_together

Wait: TypeAlias = Callable[[float], None]

HEALTH_CHECK_INTERVAL = 0.02  # seconds
STOP_GRACE = 5.0  # seconds before an engine is killed


class Engine(ABC):
    """A server as a child of this process: `with RedisEngine() as endpoint: ...`.

    To restart it, call `stop` or `kill`, then `start` and `wait_until_ready`.
    """

    name: ClassVar[str]
    ready_within: ClassVar[float] = 30.0  # seconds

    def __init__(self) -> None:
        self._log: LineSink = ignore_line
        self._process: ChildProcess | None = None

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """The address for clients."""

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """The environment variables that point a program at this engine."""

    @abstractmethod
    def _launch(self) -> ChildProcess:
        """Start the program. Raises `EngineMissing`."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether the engine answers a request in its own protocol."""

    @property
    def is_started(self) -> bool:
        return self._process is not None

    @property
    def process(self) -> ChildProcess:
        if self._process is None:
            raise RuntimeError(f"{self.name} has not been started")
        return self._process

    def start(self, *, log: LineSink | None = None) -> None:
        """Start without waiting, so that engines start in parallel. `log` receives its output, also after a restart."""
        self._log = log or self._log
        self._process = self._launch()

    def wait_until_ready(self, *, wait: Wait = time.sleep) -> str:
        """Return the endpoint once the engine answers. Raises `EngineFailed`.

        `wait` is called between two health checks; what it raises ends the wait.
        """
        deadline = time.monotonic() + self.ready_within
        while not self._answers():
            self._require_running()
            if time.monotonic() > deadline:
                raise EngineFailed(f"{self.name} did not answer within {self.ready_within:.0f} s; see its log.")
            wait(HEALTH_CHECK_INTERVAL)
        return self.endpoint

    def stop(self) -> None:
        if self._process is not None:
            stop_together([self._process], grace=STOP_GRACE)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Stop it and release its resources."""
        self.stop()

    def __enter__(self) -> str:
        try:
            self.start()
            return self.wait_until_ready()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_running(self) -> None:
        if self.process.status is None:
            return
        status = describe_exit(self.process.wait())
        last_line = next((line for line in reversed(self.process.last_lines) if line), "without output")
        raise EngineFailed(f"{self.name} {status} before it was ready: {last_line}")


class OnePortEngine(Engine):
    """An engine with one loopback port, which it keeps until it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self._port = ReservedPort()

    @property
    def port(self) -> int:
        return self._port.number

    def close(self) -> None:
        super().close()
        self._port.release()
