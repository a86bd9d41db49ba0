"""What the engines share: a life from `start` to `close`, and readiness that means an answer in their own protocol."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import ClassVar, TypeAlias

from engines.errors import EngineFailed, describe_exit
from engines.processes import ChildProcess, LineSink, ignore_line, stop_together

Pause: TypeAlias = Callable[[float], None]

PROBE_INTERVAL = 0.02
STOP_GRACE = 5.0


class Engine(ABC):
    """A store's server as a child of this process: `with RedisEngine() as endpoint: ...`.

    `stop` or `kill`, then `start` and `wait_until_ready`, restarts it. `pause` is called between two probes and may
    raise to give up the wait.
    """

    name: ClassVar[str]
    ready_within: ClassVar[float] = 30.0

    def __init__(self, *, log: LineSink = ignore_line, pause: Pause = time.sleep) -> None:
        self._log = log
        self._pause = pause
        self._process: ChildProcess | None = None

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """Where clients find it."""

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """The variables by which our own processes use it."""

    @abstractmethod
    def _launch(self) -> ChildProcess:
        """Start the program. Raises `EngineMissing`."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether the engine just answered in its own protocol."""

    @property
    def is_started(self) -> bool:
        return self._process is not None

    @property
    def process(self) -> ChildProcess:
        if self._process is None:
            raise RuntimeError(f"{self.name} has not been started")
        return self._process

    def start(self) -> None:
        """Start without waiting, so that engines can start side by side."""
        self._process = self._launch()

    def wait_until_ready(self) -> str:
        """Return the endpoint once the engine answers. Raises `EngineFailed`."""
        deadline = time.monotonic() + self.ready_within
        while not self._answers():
            self._require_running()
            if time.monotonic() > deadline:
                raise EngineFailed(
                    f"{self.name} did not answer within {self.ready_within:.0f} s; its log may tell why."
                )
            self._pause(PROBE_INTERVAL)
        return self.endpoint

    def stop(self) -> None:
        if self._process is not None:
            stop_together([self._process], grace=STOP_GRACE)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Stop it and give back what it held."""
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
        ending = describe_exit(self.process.wait())
        last_words = next((line for line in reversed(self.process.last_lines) if line), "it said nothing")
        raise EngineFailed(f"{self.name} {ending} before it was ready: {last_words}")
