"""CPU use of processes, and the processes that run the clients."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil


class ClientProcesses:
    """This process, and for the length of a block further client processes."""

    def __init__(self) -> None:
        self._processes = [psutil.Process()]

    @contextmanager
    def including(self, pids: Sequence[int]) -> Iterator[None]:
        before = self._processes
        self._processes = [*before, *map(psutil.Process, pids)]
        try:
            yield
        finally:
            self._processes = before

    def cpu(self) -> float:
        """Seconds of CPU used so far."""
        return sum(map(cpu_of, self._processes))


def cpu_of(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


def run_queue_wait_of(process: psutil.Process) -> float | None:
    """Seconds its main thread was runnable but waited for a processor, or None if the kernel has no schedstat."""
    schedstat = Path(f"/proc/{process.pid}/schedstat")
    return int(schedstat.read_text().split()[1]) / 1e9 if schedstat.exists() else None
