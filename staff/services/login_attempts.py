"""Limits attempts to log in to the admin pages, per account and per address. Without Redis, nobody logs in."""

import hashlib

from foundation.stores.redis.limits import Charge, Limit, RateLimiter

PER_ACCOUNT = Limit("staff-account", rate=1 / 60, burst=10)
PER_ADDRESS = Limit("staff-address", rate=1 / 10, burst=30)


class LoginAttempts:
    def __init__(self, limiter: RateLimiter) -> None:
        self._limiter = limiter

    def require_allowed(self, username: str, address: str) -> None:
        """Count an attempt. Raises `RateLimited`, and `StoreUnavailable` without Redis."""
        self._limiter.take_all(self._charges(username, address)).require()

    def note_success(self, username: str, address: str) -> None:
        """Attempts that succeed do not count."""
        for charge in self._charges(username, address):
            self._limiter.refund(charge.limit, charge.subject)

    def _charges(self, username: str, address: str) -> list[Charge]:
        account = hashlib.sha256(username.strip().lower().encode(errors="replace")).hexdigest()
        return [Charge(PER_ACCOUNT, account), Charge(PER_ADDRESS, address or "unknown")]
