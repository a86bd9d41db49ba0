"""What processes use of the machine, and which of them play the clients."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil


class ClientProcesses:
    """This process, and for a while those that help it."""

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


def queued_of(process: psutil.Process) -> float | None:
    """Seconds for which its first thread could have gone on and had no processor, or None where Linux does not tell."""
    told = Path(f"/proc/{process.pid}/schedstat")
    return int(told.read_text().split()[1]) / 1e9 if told.exists() else None
