"""The terminal of a run: every line is prefixed with the name of the process that wrote it."""

import contextlib
import os
import threading
from typing import TextIO

from engines.processes import LineSink

NAME_WIDTH = 8
RESET = "\033[0m"
COLOURS = tuple(f"\033[{code}m" for code in ("1", "31", "35", "34", "33", "32", "36"))


class Console:
    """Writes whole lines from many threads. A closed output does not stop the run."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._coloured = output.isatty() and not os.environ.get("NO_COLOR")
        self._colours: dict[str, str] = {}
        self._lock = threading.Lock()

    def write(self, line: str) -> None:
        """Write a line without a prefix."""
        with self._lock, contextlib.suppress(OSError):
            print(line, file=self._output, flush=True)

    def sink(self, name: str) -> LineSink:
        """Return the sink for the lines of the process `name`. Each name has its own colour."""
        prefix = f"{name:<{NAME_WIDTH}} |"
        if self._coloured:
            colour = self._colours.setdefault(name, COLOURS[len(self._colours) % len(COLOURS)])
            prefix = f"{colour}{prefix}{RESET}"
        return lambda line: self.write(f"{prefix} {line}") if line else None
