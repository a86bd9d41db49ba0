"""Limits attempts to log in to the admin pages, per account and per address. Without Redis, nobody logs in."""

import hashlib

from foundation.stores.redis.limits import Charge, Limit, RateLimiter

PER_ACCOUNT = Limit("staff-account", rate=1 / 60, burst=10)
PER_ADDRESS = Limit("staff-address", rate=1 / 10, burst=30)
REPORTS_PER_ACCOUNT = Limit("staff-account-report", rate=1 / 600, burst=1)
REPORTS_PER_ADDRESS = Limit("staff-address-report", rate=1 / 600, burst=1)


class LoginAttempts:
    def __init__(self, limiter: RateLimiter) -> None:
        self._limiter = limiter

    def require_allowed(self, username: str, address: str) -> None:
        """Count an attempt. Raises `RateLimited`, and `StoreUnavailable` without Redis."""
        self._limiter.take_all(self._charges(username, address)).require()

    def should_report(self, username: str, address: str) -> bool:
        """Whether an attempt over the limit is to be recorded: one in ten minutes, or they would fill the audit log.

        Raises `StoreUnavailable` without Redis.
        """
        charges = self._charges(username, address, per_account=REPORTS_PER_ACCOUNT, per_address=REPORTS_PER_ADDRESS)
        return self._limiter.take_all(charges).allowed

    def note_success(self, username: str, address: str) -> None:
        """Attempts that succeed do not count."""
        for charge in self._charges(username, address):
            self._limiter.refund(charge.limit, charge.subject)

    def _charges(
        self, username: str, address: str, *, per_account: Limit = PER_ACCOUNT, per_address: Limit = PER_ADDRESS
    ) -> list[Charge]:
        account = hashlib.sha256(username.strip().lower().encode(errors="replace")).hexdigest()
        return [Charge(per_account, account), Charge(per_address, address or "unknown")]
