"""`manage.py dev` as a user starts it, in a process of its own, and the children that it starts."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import psutil

PROJECT_ROOT = Path(__file__).resolve().parents[2]
READY = re.compile(r"^Parley is ready on (http://127\.0\.0\.1:\d+)$")
STARTED = re.compile(r"^dev +\| ([\w-]+) is ready on (\S+) \(process (\d+)\)$")
MARK = "PARLEY_TEST_RUN"
START_TIMEOUT = 60.0  # seconds
STOP_TIMEOUT = 30.0  # seconds
# Variables that pytest or a developer's shell may have set. The command runs without them.
UNSET = (
    *("DJANGO_SETTINGS_MODULE", "DATA_DIR", "SECRET_KEY", "DATABASE_URL", "ENGINES"),
    *("PORT", "ADMIN_PORT", "WEB", "FANOUT"),
)

Found = TypeVar("Found")


def eventually(find: Callable[[], Found | None], *, within: float, what: str) -> Found:
    """Poll `find` until it returns something other than None, and return that."""
    deadline = time.monotonic() + within
    while (found := find()) is None:
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {within:.0f} s")
        threading.Event().wait(0.02)
    return found


class DevRun:
    """One run of the command. A variable in its environment marks its descendants, orphans included.

    A Redis server overwrites its environment with its title, so known children are remembered too.
    """

    def __init__(
        self, data_dir: Path, *options: str, port: int = 0, variables: Mapping[str, str] | None = None
    ) -> None:
        """`options` are those of the command; `variables` are added to the environment."""
        self.data_dir = data_dir
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._mark = uuid.uuid4().hex
        self._seen: set[psutil.Process] = set()
        environment = {name: value for name, value in os.environ.items() if name not in UNSET}
        self._process = subprocess.Popen(
            [sys.executable, "manage.py", "dev", "--port", str(port), "--data-dir", str(data_dir), *options],
            cwd=PROJECT_ROOT,
            env={**environment, **(variables or {}), MARK: self._mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._readers = [
            self._collect(self._process.stdout or (), self.lines),
            self._collect(self._process.stderr or (), self.errors),
        ]

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def refusal(self) -> str:
        """What the run wrote to stderr."""
        return "".join(self.errors).strip()

    def wait_until_ready(self) -> str:
        """The address in the ready line."""

        def find() -> str | None:
            if self._process.poll() is not None:
                raise AssertionError(f"the run ended before it was ready:\n{''.join(self.lines)}{self.refusal}")
            return next((match[1] for line in self.lines if (match := READY.match(line))), None)

        address = eventually(find, within=START_TIMEOUT, what="the ready line")
        self._remember_children()
        return address

    def wait_for_line(self, text: str) -> None:
        eventually(
            lambda: True if any(text in line for line in self.lines) else None,
            within=START_TIMEOUT,
            what=f"a line with {text!r}",
        )
        self._remember_children()

    def engines(self) -> dict[str, Any]:
        """`{name: {"endpoint": …, "pid": …}}` from `engines.json`."""
        described: dict[str, Any] = json.loads((self.data_dir / "engines.json").read_text())
        return described

    def descendants(self) -> list[psutil.Process]:
        """Every running process of this run except the command itself, orphans included."""
        marked = {process for process in psutil.process_iter() if process.pid != self.pid and self._is_marked(process)}
        return [process for process in marked | self._seen if _is_alive(process)]

    def child(self, name: str) -> psutil.Process:
        """An engine or a `web` process by its name, another service by its command."""
        if name in self.addresses():
            return psutil.Process(self.addresses()[name][1])
        return next(process for process in self.descendants() if name in process.cmdline())

    def addresses(self) -> dict[str, tuple[str, int]]:
        """The own address and the process id of each engine and each `web` process, by its name."""
        return {match[1]: (match[2], int(match[3])) for line in self.lines if (match := STARTED.match(line))}

    def terminate(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self._process.kill()

    def press_ctrl_c(self) -> None:
        """Send SIGINT to the whole process group, as a terminal does."""
        os.killpg(self.pid, signal.SIGINT)

    def wait(self) -> int:
        """Wait for the exit and read all output. Returns the exit status."""
        status = self._process.wait(STOP_TIMEOUT)
        for reader in self._readers:
            reader.join(STOP_TIMEOUT)
        return status

    def wait_until_no_process_is_left(self) -> bool:
        return eventually(
            lambda: None if self.descendants() else True, within=STOP_TIMEOUT, what="the exit of all children"
        )

    def close(self) -> None:
        """Kill everything that still runs."""
        self._process.kill()
        self.wait()
        for process in self.descendants():
            process.kill()

    def _remember_children(self) -> None:
        self._seen.update(psutil.Process(self.pid).children(recursive=True))

    def _is_marked(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get(MARK) == self._mark
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False

    def _collect(self, output: Iterable[str], lines: list[str]) -> threading.Thread:
        def read() -> None:
            lines.extend(output)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        return reader


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
