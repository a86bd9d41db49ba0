"""The processes that play the clients, whose CPU is told apart from the servers'."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psutil


class ClientProcesses:
    """This one, and for a while those that help it."""

    def __init__(self) -> None:
        self._processes = [psutil.Process()]

    @contextmanager
    def joined_by(self, pids: Sequence[int]) -> Iterator[None]:
        alone = self._processes
        self._processes = [*alone, *map(psutil.Process, pids)]
        try:
            yield
        finally:
            self._processes = alone

    def cpu(self) -> float:
        """Seconds that they have used so far."""
        return sum(map(cpu_of, self._processes))


def cpu_of(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))
