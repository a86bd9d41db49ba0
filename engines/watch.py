"""What can end a run at any moment: a signal to us, or the death of a child."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Thread
from types import FrameType

from engines.errors import ChildDied, describe_exit
from engines.processes import ChildProcess

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(Exception):
    """Raised where a run waits when somebody asked it to stop."""


class Watch:
    """Collects endings from signal handlers and threads, and raises them only where the run waits.

    So nothing is interrupted halfway: a child is either not started or known to those who will stop it.
    """

    def __init__(self) -> None:
        # The one queue whose `put` may be called from a signal handler.
        self._endings: SimpleQueue[StopRequested | ChildDied] = SimpleQueue()

    @contextmanager
    def over_signals(self) -> Iterator[None]:
        """Turn Ctrl-C, SIGTERM and a closed terminal into `StopRequested`."""
        former = {number: signal.signal(number, self._request_stop) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def over(self, child: ChildProcess) -> None:
        """From now on the end of this child is the end of the run."""
        Thread(target=self._report_death, args=[child], name=f"{child.name}-watch", daemon=True).start()

    def pause(self, seconds: float | None) -> None:
        """Wait, for ever with None. Raises `StopRequested` or `ChildDied` as soon as there is an ending."""
        try:
            ending = self._endings.get(timeout=seconds)
        except Empty:
            return
        raise ending

    def is_stop_requested(self) -> bool:
        """Whether somebody asked since the last `pause`."""
        while not self._endings.empty():
            if isinstance(self._endings.get(), StopRequested):
                return True
        return False

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        self._endings.put(StopRequested())

    def _report_death(self, child: ChildProcess) -> None:
        ending = describe_exit(child.wait())
        self._endings.put(ChildDied(f"{child.name} {ending}, so everything was stopped; its lines above may tell why."))
