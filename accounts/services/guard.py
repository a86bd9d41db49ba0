"""What protects the login: how often codes are sent, and how often they are tried.

Fails closed: when Redis is away, nobody logs in.
"""

import ipaddress
from dataclasses import dataclass, field

from foundation.stores.redis.limits import Limit, RateLimiter

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class LoginPolicy:
    """The allowances. `resend_after` is the pause in seconds between two codes to one number."""

    resend_after: float = 30
    codes_per_number: Limit = field(default=Limit("login-number", rate=10 / HOUR, burst=10))
    codes_per_address: Limit = field(default=Limit("login-address", rate=60 / HOUR, burst=20))
    attempts_per_address: Limit = field(default=Limit("login-attempt", rate=1, burst=60))

    @property
    def resend(self) -> Limit:
        return Limit("login-resend", rate=1 / self.resend_after, burst=1)


class LoginGuard:
    """Counts by number (under a pseudonym) and by address. An IPv6 address counts as its network of 64 bits."""

    def __init__(self, limiter: RateLimiter, *, policy: LoginPolicy, loopback_is_free: bool = False) -> None:
        self._limiter = limiter
        self._loopback_is_free = loopback_is_free
        self.policy = policy

    def require_code_allowed(self, number: str, address: str) -> None:
        """Raises `RateLimited`. The address is asked first: a noisy one must not use up other people's numbers."""
        self._require_address(self.policy.codes_per_address, address)
        self._limiter.take(self.policy.resend, number).require()
        self._limiter.take(self.policy.codes_per_number, number).require()

    def require_attempt_allowed(self, address: str) -> None:
        """Raises `RateLimited`."""
        self._require_address(self.policy.attempts_per_address, address)

    def end_resend_pause(self, number: str) -> None:
        """The number's owner has logged in, and may want a code for the next device at once."""
        self._limiter.give_back(self.policy.resend, number)

    def undo_code(self, number: str) -> None:
        """The code was not sent after all: neither pause nor allowance is used up."""
        self.end_resend_pause(number)
        self._limiter.give_back(self.policy.codes_per_number, number)

    def _require_address(self, limit: Limit, address: str) -> None:
        subject, loopback = _subject(address)
        if not (loopback and self._loopback_is_free):
            self._limiter.take(limit, subject).require()


def _subject(address: str) -> tuple[str, bool]:
    """Under which name an address is counted, and whether it is loopback. Callers of no known address share one."""
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
