"""What ends a run: a stop signal, or the exit of a child process."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Thread
from types import FrameType

from engines.errors import ChildExited
from engines.processes import ChildProcess

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(Exception):
    """Raised by `Interrupts.wait` after a stop signal."""


class Interrupts:
    """Queues stop signals and child exits, and raises them only in `wait`.

    So no other code is interrupted: a child that has been started is always known to the code that stops it.
    """

    def __init__(self) -> None:
        # Only SimpleQueue allows `put` in a signal handler.
        self._queue: SimpleQueue[StopRequested | ChildExited] = SimpleQueue()

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Turn SIGINT, SIGTERM and SIGHUP into `StopRequested`."""
        previous = {number: signal.signal(number, self._on_signal) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def watch(self, child: ChildProcess) -> None:
        """From now on the exit of this child interrupts the run."""
        Thread(target=self._wait_for_exit, args=[child], name=f"{child.name}-exit", daemon=True).start()

    def wait(self, seconds: float | None) -> None:
        """Wait, without a limit for None. Raises `StopRequested` or `ChildExited` at once when there is one."""
        try:
            interrupt = self._queue.get(timeout=seconds)
        except Empty:
            return
        raise interrupt

    def is_stop_requested(self) -> bool:
        """Whether a stop signal has arrived since the last call of `wait`."""
        while not self._queue.empty():
            if isinstance(self._queue.get(), StopRequested):
                return True
        return False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._queue.put(StopRequested())

    def _wait_for_exit(self, child: ChildProcess) -> None:
        self._queue.put(ChildExited(child.name, child.wait()))
