"""Rate limits per caller, for reads. They fail open: without Redis, reads are not limited."""

import logging
from typing import TYPE_CHECKING

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from foundation.kernel.caller import Caller
from foundation.rest.views import ParleyView
from foundation.stores.errors import StoreUnavailable
from foundation.stores.metrics import UNLIMITED_REQUESTS
from foundation.stores.redis.limits import Limit, RateLimiter

if TYPE_CHECKING:
    from rest_framework.views import APIView

log = logging.getLogger(__name__)


class CallerThrottle(BaseThrottle):
    """One token bucket per user."""

    def __init__(self, limiter: RateLimiter, limit: Limit) -> None:
        self._limiter = limiter
        self._limit = limit

    def allow_request(self, request: Request, view: "APIView") -> bool:
        """Return True or raise `RateLimited`, which becomes a 429 with `Retry-After`."""
        if not isinstance(request.user, Caller):
            return True
        try:
            verdict = self._limiter.take(self._limit, request.user.user_id)
        except StoreUnavailable as error:
            UNLIMITED_REQUESTS.labels(self._limit.name).inc()
            log.debug("no limit %s: %s", self._limit.name, error)
            return True
        verdict.require()
        return True


class ThrottledView(ParleyView):
    """A view with a rate limit per caller: `as_view(throttle=...)`."""

    throttle: CallerThrottle | None = None

    def get_throttles(self) -> list[BaseThrottle]:
        return [self.throttle] if self.throttle is not None else []
