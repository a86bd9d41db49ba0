"""Rate limits of every route: per user, and of routes without one per address and session.

Shared by all processes, or local while Redis is away.
"""

from collections.abc import Callable, Iterable, Mapping

from django.http import HttpRequest
from rest_framework.request import Request

from foundation.kernel.addresses import client_of
from foundation.kernel.ids import SessionId, UserId
from foundation.rest.addresses import ClientAddress
from foundation.stores.redis.limits import Charge, FallbackRateLimiter, Limit

READS, WRITES = "reads", "writes"
"""The limits that every view uses. A view may name others in its `costs`."""
PUBLIC, REFRESHES = "public", "refresh"
REFRESHES_PER_SESSION = Limit(REFRESHES, rate=0.1, burst=30)
"""A client refreshes every quarter of an hour. Several tabs may share a session."""


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


class PublicLimits:
    """The limits of requests without a user. Those of addresses for which `is_exempt` returns True are not counted."""

    def __init__(
        self,
        limiter: FallbackRateLimiter,
        per_address: Limit,
        *,
        address_of: ClientAddress,
        is_exempt: Callable[[str], bool],
    ) -> None:
        self._limiter = limiter
        self._per_address = per_address
        self._address_of = address_of
        self._is_exempt = is_exempt

    async def take_address(self, request: Request | HttpRequest) -> None:
        """Count a request of its address. Raises `RateLimited`."""
        address = self._address_of(request)
        if not self._is_exempt(address):
            (await self._limiter.take_all([Charge(self._per_address, client_of(address))])).require()

    async def take_refresh(self, session_id: SessionId) -> None:
        """Count a refresh of a session, whose token has been verified. Raises `RateLimited`."""
        (await self._limiter.take_all([Charge(REFRESHES_PER_SESSION, session_id)])).require()
