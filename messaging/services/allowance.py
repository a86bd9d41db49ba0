"""How fast one user may send: a token bucket per user, kept in this process.

A look-up costs no network, so the limit holds per process; a user's connections to several processes have as many
allowances. It is there to stop floods, and a flood meets the same bucket with every frame.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from foundation.kernel.errors import RateLimited
from foundation.kernel.ids import UserId

REMEMBERED_USERS = 50_000


class SendAllowance:
    """`burst` messages at once, `rate` a second in the long run. Thread-safe."""

    def __init__(self, *, rate: float, burst: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._monotonic = monotonic
        self._buckets: OrderedDict[UserId, tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def take(self, user_id: UserId) -> None:
        """Take one message's worth. Raises `RateLimited`, and then takes nothing."""
        with self._lock:
            now = self._monotonic()
            tokens, at = self._buckets.pop(user_id, (self._burst, now))
            tokens = min(self._burst, tokens + (now - at) * self._rate)
            self._buckets[user_id] = (max(tokens - 1, 0) if tokens >= 1 else tokens, now)
            if len(self._buckets) > REMEMBERED_USERS:
                self._buckets.popitem(last=False)
        if tokens < 1:
            raise RateLimited("You are sending too fast; slow down and send it again", retry_after=1 / self._rate)
