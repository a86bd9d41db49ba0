"""Rate limits of the login. They fail closed: without Redis, every login is refused."""

import ipaddress
from dataclasses import dataclass, field

from foundation.stores.redis.limits import Limit, RateLimiter

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class LoginPolicy:
    """The limits. `resend_after` is the minimum number of seconds between two codes for one number."""

    resend_after: float = 30
    codes_per_number: Limit = field(default=Limit("login-number", rate=10 / SECONDS_PER_HOUR, burst=10))
    codes_per_address: Limit = field(default=Limit("login-address", rate=60 / SECONDS_PER_HOUR, burst=20))
    attempts_per_address: Limit = field(default=Limit("login-attempt", rate=1, burst=60))

    @property
    def resend(self) -> Limit:
        return Limit("login-resend", rate=1 / self.resend_after, burst=1)


class LoginGuard:
    """Applies the limits per phone number (by its pseudonym) and per address. IPv6 addresses count by their /64."""

    def __init__(self, limiter: RateLimiter, *, policy: LoginPolicy, loopback_is_free: bool = False) -> None:
        self._limiter = limiter
        self._loopback_is_free = loopback_is_free
        self.policy = policy

    def require_code_allowed(self, number: str, address: str) -> None:
        """Raises `RateLimited`. The address is checked first, so that it cannot use up the limit of other numbers."""
        self._require_address(self.policy.codes_per_address, address)
        self._limiter.take(self.policy.resend, number).require()
        self._limiter.take(self.policy.codes_per_number, number).require()

    def require_attempt_allowed(self, address: str) -> None:
        """Raises `RateLimited`."""
        self._require_address(self.policy.attempts_per_address, address)

    def allow_resend(self, number: str) -> None:
        """End the wait between two codes: a login succeeded, and the next device may need a code at once."""
        self._limiter.refund(self.policy.resend, number)

    def refund_code(self, number: str) -> None:
        """Return the tokens taken for a code that could not be sent."""
        self.allow_resend(number)
        self._limiter.refund(self.policy.codes_per_number, number)

    def _require_address(self, limit: Limit, address: str) -> None:
        subject, loopback = _subject(address)
        if not (loopback and self._loopback_is_free):
            self._limiter.take(limit, subject).require()


def _subject(address: str) -> tuple[str, bool]:
    """The bucket of an address, and whether it is loopback. All requests without an address share one bucket."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown", False
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return _subject(str(parsed.ipv4_mapped))
        network = ipaddress.ip_network((int(parsed), 64), strict=False)
        return str(network.network_address), parsed.is_loopback
    return str(parsed), parsed.is_loopback
