"""Rate limits per user, for every authenticated route. Shared by all processes, or local while Redis is away."""

from collections.abc import Iterable, Mapping

from foundation.kernel.ids import UserId
from foundation.stores.redis.limits import Charge, FallbackRateLimiter, Limit

READS, WRITES = "reads", "writes"
"""The limits that every view uses. A view may name others in its `costs`."""


class UserLimits:
    """The limits of each user, by name."""

    def __init__(self, limiter: FallbackRateLimiter, limits: Iterable[Limit]) -> None:
        self._limiter = limiter
        self._limits = {limit.name: limit for limit in limits}

    async def take(self, user_id: UserId, costs: Mapping[str, int]) -> None:
        """Take these tokens of the user, all or none. Raises `RateLimited`, which becomes a 429 with `Retry-After`.

        A cost above a limit's burst takes the whole burst, so that no request is refused for ever.
        """
        charges = [
            Charge(self._limits[name], user_id, min(cost, self._limits[name].burst)) for name, cost in costs.items()
        ]
        (await self._limiter.take_all(charges)).require()
