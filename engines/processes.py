"""Child processes: started so that they die with us, their output read line by line, stopped within a bounded time."""

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
TETHER = Path(__file__).with_name("tether.py")
KEPT_LINES = 20
POLL_INTERVAL = 0.01

# The kernel kills a tethered child when the thread that forked it ends: this one lives as long as the process.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")


def ignore_line(line: str) -> None:
    """The sink of those who do not want to read a child's output."""


class ChildProcess:
    """A running program, in a session of its own so that a terminal's Ctrl-C reaches only us, who stop it in order."""

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
        tethered = [sys.executable, "-I", "-S", str(TETHER), str(os.getpid()), *command]
        self._popen = _spawner.submit(_spawn, tethered, {**os.environ, **(environment or {})}).result()
        self._reader = threading.Thread(target=self._read, name=f"{name}-output", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def status(self) -> int | None:
        """None while it runs, then the exit status (the signal's negative number when killed)."""
        return self._popen.poll()

    def wait(self) -> int:
        """Its exit status once it has ended, with every line it wrote read."""
        status = self._popen.wait()
        # Bounded, because a grandchild may have inherited the pipe and keep it open.
        self._reader.join(timeout=1)
        return status

    def terminate(self) -> None:
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        """To it and to whatever it has started; nothing happens where it has ended."""
        if self._popen.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, number)

    def _read(self) -> None:
        with cast(IO[str], self._popen.stdout) as output:
            for line in output:
                self.last_lines.append(line.rstrip())
                self._log(line.rstrip())


def stop_together(children: Sequence[ChildProcess], *, grace: float, hurry: Callable[[], bool] = lambda: False) -> None:
    """Ask all to end, insist after `grace` seconds or as soon as `hurry` says so, and return when all are gone."""
    for child in children:
        child.terminate()
    deadline = time.monotonic() + grace
    while any(child.status is None for child in children) and time.monotonic() < deadline and not hurry():
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
