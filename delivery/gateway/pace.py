"""How fast one user may connect to a process, and send frames over all connections.

Each connection costs a read of its session and writes to Redis, each frame costs others the event loop. Counted in this
process alone, so that a mass reconnect asks Redis nothing more.
"""

import time
from collections import OrderedDict
from collections.abc import Callable

from foundation.kernel.ids import UserId
from foundation.server.extension import FRAME_BURST, FRAME_RATE
from foundation.stores.redis.limits import LOCAL_BUCKETS, Charge, Limit, LocalRateLimiter

CONNECTIONS = 4
"""All connections of a user together may send as many frames as so many of them alone."""
PART = 4
"""A connection is granted at most this part of what is left, so that the user's others get something too."""

Identify = Callable[[str], UserId | None]
"""The user of a valid access token, without I/O."""


class ConnectPace:
    def __init__(self, limit: Limit, *, identify: Identify, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._identify = identify
        self._limiter = LocalRateLimiter(monotonic=monotonic)

    def require(self, access_token: str) -> None:
        """Raises `RateLimited`. Tokens that are not valid are not counted: they are refused without a read."""
        user_id = self._identify(access_token)
        if user_id is not None:
            self._limiter.take_all([Charge(self._limit, user_id)]).require()


class FramePace:
    """Grants tokens to connections of users, one for each frame. Remembers the users seen last, also without any."""

    def __init__(self, *, capacity: int = LOCAL_BUCKETS, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._capacity = capacity
        self._monotonic = monotonic
        self._buckets: OrderedDict[UserId, tuple[float, float]] = OrderedDict()

    def grant(self, user_id: UserId, wanted: float) -> float:
        """How many of the wanted tokens a connection of the user gets."""
        burst, now = CONNECTIONS * FRAME_BURST, self._monotonic()
        left, at = self._buckets.pop(user_id, (burst, now))
        left = min(burst, left + (now - at) * CONNECTIONS * FRAME_RATE)
        granted = min(wanted, left / PART)
        self._buckets[user_id] = (left - granted, now)
        if len(self._buckets) > self._capacity:
            self._buckets.popitem(last=False)
        return granted
