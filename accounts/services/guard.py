"""Rate limits of the login. They fail closed: without Redis, every login is refused."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from foundation.kernel.addresses import client_of, is_loopback
from foundation.stores.redis.limits import Charge, Limit, RateLimiter

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class LoginPolicy:
    """The limits. `resend_after` is the minimum number of seconds between two codes for one number from one address.

    `sms_per_country` and `sms_in_total` are numbers of codes an hour, 0 for no limit.
    """

    resend_after: float = 30
    codes_per_number: Limit = field(default=Limit("login-number", rate=10 / SECONDS_PER_HOUR, burst=10))
    codes_per_caller: Limit = field(default=Limit("login-caller", rate=5 / SECONDS_PER_HOUR, burst=5))
    resends_per_login: Limit = field(default=Limit("login-again", rate=2 / SECONDS_PER_HOUR, burst=2))
    codes_per_address: Limit = field(default=Limit("login-address", rate=60 / SECONDS_PER_HOUR, burst=20))
    attempts_per_address: Limit = field(default=Limit("login-attempt", rate=1, burst=60))
    sms_per_country: int = 0
    sms_in_total: int = 0

    @property
    def resend(self) -> Limit:
        return Limit("login-resend", rate=1 / self.resend_after, burst=1)


@dataclass(frozen=True, slots=True)
class CodeRequest:
    """Who asks for a code: the number's pseudonym and country code, the address, and a login of the number, if any."""

    number: str
    country_code: int
    address: str
    login_id: str | None = None

    @property
    def caller(self) -> str:
        """The number as asked for from this address."""
        return f"{self.number}:{client_of(self.address)}"


class LoginGuard:
    """Applies the limits per phone number (by its pseudonym) and per address. IPv6 addresses count by their /64.

    One address gets at most half of a number's codes, so a stranger cannot use them up for the owner. Who holds a
    login of the number gets a few codes more, which count for that login alone.
    """

    def __init__(self, limiter: RateLimiter, *, policy: LoginPolicy, loopback_is_free: bool = False) -> None:
        self._limiter = limiter
        self._loopback_is_free = loopback_is_free
        self.policy = policy

    def require_request_allowed(self, address: str) -> None:
        """Raises `RateLimited`. Comes before all else, so that an address cannot use up the limits of numbers."""
        self._require_address(self.policy.codes_per_address, address)

    def require_code_allowed(self, request: CodeRequest) -> None:
        """Raises `RateLimited`, and then takes nothing."""
        self._limiter.take_all(self._charges(request)).require()
        if caps := self._caps(request.country_code):
            verdict = self._limiter.take_all(caps)
            if not verdict.allowed:
                self._refund(self._charges(request))
            verdict.require()

    def require_attempt_allowed(self, address: str) -> None:
        """Raises `RateLimited`."""
        self._require_address(self.policy.attempts_per_address, address)

    def note_login(self, number: str, address: str) -> None:
        """A login succeeded: from this address, the next device may need a code at once, and codes do not run out."""
        caller = CodeRequest(number, country_code=0, address=address).caller
        whole = self.policy.codes_per_caller
        self._refund([Charge(self.policy.resend, caller), Charge(whole, caller, whole.burst)])

    def refund_code(self, request: CodeRequest) -> None:
        """Return the tokens taken for a code that could not be sent."""
        self._refund([*self._charges(request), *self._caps(request.country_code)])

    def _charges(self, request: CodeRequest) -> list[Charge]:
        policy, pause = self.policy, Charge(self.policy.resend, request.caller)
        if request.login_id is not None:
            return [pause, Charge(policy.resends_per_login, request.login_id)]
        return [
            pause,
            Charge(policy.codes_per_caller, request.caller),
            Charge(policy.codes_per_number, request.number),
        ]

    def _caps(self, country_code: int) -> list[Charge]:
        caps = [(self.policy.sms_per_country, f"+{country_code}"), (self.policy.sms_in_total, "all")]
        return [Charge(Limit("sms", rate=cap / SECONDS_PER_HOUR, burst=cap), where) for cap, where in caps if cap]

    def _refund(self, charges: Sequence[Charge]) -> None:
        self._limiter.take_all([replace(charge, cost=-charge.cost) for charge in charges])

    def _require_address(self, limit: Limit, address: str) -> None:
        if not (self._loopback_is_free and is_loopback(address)):
            self._limiter.take(limit, client_of(address)).require()
