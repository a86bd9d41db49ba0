"""A settable clock, a token check without login, a process that does not answer, and waiting for a condition."""

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
    """Moves only by `advance`. Starts in the future: engines delete expired items by their own clock."""

    def __init__(self, moment: datetime = datetime(2035, 1, 30, 14, 30, tzinfo=UTC)) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def advance(self, **duration: float) -> None:
        self.moment += timedelta(**duration)


async def verify_user_id(token: str) -> Caller:
    """Accept a user id as a token, so that tests of other apps need no login."""
    if not is_user_id(token):
        raise Unauthenticated
    return Caller(
        user_id=UserId(token),
        session_id=SessionId("sess_" + token.removeprefix("user_")),
        expires_at=datetime(2100, 1, 1, tzinfo=UTC),
    )


@contextmanager
def halted(pid: int) -> Iterator[None]:
    """Stop a process with SIGSTOP: it keeps its connections and does not answer. Continue it at the end."""
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def eventually(condition: Callable[[], object], *, within: float = 10.0) -> None:
    """Poll until the condition holds. Fails after the deadline."""
    deadline = monotonic() + within
    while not condition():
        assert monotonic() < deadline, "the condition did not come true in time"
        sleep(0.01)
