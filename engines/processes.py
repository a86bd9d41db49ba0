"""Child processes: killed when this process ends, their output read line by line, stopped within a bounded time."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TypeAlias, cast

LineSink: TypeAlias = Callable[[str], None]

PROJECT_ROOT = Path(__file__).resolve().parents[1]
DIE_WITH_PARENT = Path(__file__).with_name("die_with_parent.py")
KEPT_LINES = 20
POLL_INTERVAL = 0.01  # seconds

# The kernel kills a child when the thread that forked it ends: this thread lives as long as the process.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")


def ignore_line(line: str) -> None:
    """A sink that discards its lines."""


class ChildProcess:
    """A running program. It has its own session, so that Ctrl-C in the terminal reaches only this process."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        log: LineSink = ignore_line,
    ) -> None:
        self.name = name
        self.last_lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._log = log
        wrapped = [sys.executable, "-I", "-S", str(DIE_WITH_PARENT), str(os.getpid()), *command]
        self._popen = _spawner.submit(_spawn, wrapped, {**os.environ, **(environment or {})}).result()
        self._reader = threading.Thread(target=self._read, name=f"{name}-output", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def status(self) -> int | None:
        """None while it runs, then the exit status: the negative signal number when a signal killed it."""
        return self._popen.poll()

    def wait(self) -> int:
        """Wait for its exit and for its last line of output. Returns the exit status."""
        status = self._popen.wait()
        # A grandchild may have inherited the pipe and keep it open.
        self._reader.join(timeout=1)
        return status

    def terminate(self) -> None:
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        """Signal its process group. Does nothing after its exit."""
        if self._popen.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, number)

    def _read(self) -> None:
        with cast(IO[str], self._popen.stdout) as output:
            for line in output:
                self.last_lines.append(line.rstrip())
                self._log(line.rstrip())


def stop_together(
    children: Sequence[ChildProcess], *, grace: float, kill_now: Callable[[], bool] = lambda: False
) -> None:
    """Terminate all, kill those that run after `grace` seconds or once `kill_now` returns True, and wait for all."""
    for child in children:
        child.terminate()
    deadline = time.monotonic() + grace
    while any(child.status is None for child in children) and time.monotonic() < deadline and not kill_now():
        time.sleep(POLL_INTERVAL)
    for child in children:
        child.kill()
        child.wait()


def _spawn(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - the commands are our own
        command,
        cwd=PROJECT_ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
