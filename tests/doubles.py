"""Stand-ins for what a test must hold still: the clock, and who is calling."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep

import psutil

from foundation.kernel.caller import Caller
from foundation.kernel.errors import Unauthenticated
from foundation.kernel.ids import SessionId, UserId, is_user_id


class SettableClock:
    """Stands still until told otherwise, in a year that has not come: engines delete what has expired by their own."""

    def __init__(self, moment: datetime = datetime(2035, 1, 30, 14, 30, tzinfo=UTC)) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def advance(self, **duration: float) -> None:
        self.moment += timedelta(**duration)


def verify_user_id(token: str) -> Caller:
    """Takes a user id for a token, so that tests of other apps need no login."""
    if not is_user_id(token):
        raise Unauthenticated
    return Caller(
        user_id=UserId(token),
        session_id=SessionId("sess_" + token.removeprefix("user_")),
        expires_at=datetime(2100, 1, 1, tzinfo=UTC),
    )


@contextmanager
def halted(pid: int) -> Iterator[None]:
    """A process stopped in its tracks, alive and mute. Begins when the kernel has really stopped it."""
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def eventually(condition: Callable[[], object], *, within: float = 10.0) -> None:
    """Wait until the condition holds. Fails with the deadline, never sooner and never much later."""
    deadline = monotonic() + within
    while not condition():
        assert monotonic() < deadline, "the condition did not come true in time"
        sleep(0.01)
