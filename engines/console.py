"""The one terminal of a run: each line under the name of the process that wrote it, in that process's colour."""

import contextlib
import os
import threading
from typing import TextIO

from engines.processes import LineSink

NAME_WIDTH = 8
RESET = "\033[0m"
COLOURS = {
    "dev": "\033[1m",
    "dynamodb": "\033[34m",
    "kafka": "\033[35m",
    "redis": "\033[31m",
    "tables": "\033[33m",
    "topics": "\033[33m",
    "web": "\033[32m",
    "fanout": "\033[36m",
}


class Console:
    """Whole lines from many threads, never mixed. A reader that went away does not stop the run."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._coloured = output.isatty() and not os.environ.get("NO_COLOR")
        self._lock = threading.Lock()

    def announce(self, sentence: str) -> None:
        """A line of its own, for people and scripts to wait for."""
        self._write(sentence)

    def sink(self, name: str) -> LineSink:
        """Where the process `name` writes its lines."""
        prefix = f"{name:<{NAME_WIDTH}} |"
        if self._coloured:
            prefix = f"{COLOURS.get(name, '')}{prefix}{RESET}"
        return lambda line: self._write(f"{prefix} {line}") if line else None

    def _write(self, line: str) -> None:
        with self._lock, contextlib.suppress(OSError):
            print(line, file=self._output, flush=True)
