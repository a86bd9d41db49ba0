"""How fast one user may connect to a process: each connection costs a read of its session and writes to Redis.

Counted in this process alone, so that a mass reconnect asks Redis nothing more.
"""

import time
from collections.abc import Callable

from foundation.kernel.ids import UserId
from foundation.stores.redis.limits import Charge, Limit, LocalRateLimiter

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
