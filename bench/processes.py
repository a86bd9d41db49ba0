"""CPU and memory use of processes, and the processes that run the clients."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psutil

SAMPLE_INTERVAL = 0.05  # seconds


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
        """Seconds of CPU used so far, by their finished children too: `wrk` is one."""
        return float(sum(sum(process.cpu_times()[:4]) for process in self._processes))


class PeakMemory:
    """Samples `read` and keeps the maximum, in bytes."""

    def __init__(self, read: Callable[[], int]) -> None:
        self._read = read
        self.most = 0

    def sampling(self) -> AbstractAsyncContextManager[None]:
        return in_background(self._sample())

    async def _sample(self) -> None:
        while True:
            self.most = max(self.most, self._read())
            await asyncio.sleep(SAMPLE_INTERVAL)


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs `work` for the length of the block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()


def cpu_of(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


def run_queue_wait_of(process: psutil.Process) -> float | None:
    """Seconds its main thread was runnable but waited for a processor, or None if the kernel has no schedstat."""
    schedstat = Path(f"/proc/{process.pid}/schedstat")
    return int(schedstat.read_text().split()[1]) / 1e9 if schedstat.exists() else None
