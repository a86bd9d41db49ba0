"""Rate limits shared by all processes: token buckets in Redis, under `limit:`.

A bucket holds up to `burst` tokens and refills at `rate` per second. One script updates it by the clock of Redis, so
neither concurrency nor clock skew exceeds the limit. A missing bucket is full. Without Redis, `RateLimiter` raises
`StoreUnavailable`, so its callers fail closed; `FallbackRateLimiter` goes on with buckets of this process.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import redis
import redis.asyncio

from foundation.kernel.errors import RateLimited
from foundation.stores.errors import StoreUnavailable
from foundation.stores.metrics import LOCALLY_LIMITED_REQUESTS
from foundation.stores.redis.client import naming_failures

LOCAL_BUCKETS = 50_000
LEASE_SECONDS = 0.01
LEASE_LIFETIME = 1.0
RETRY_REDIS_AFTER = 1.0
"""Seconds for which a process goes on without Redis before it asks again, so that a hanging Redis delays few."""

_TAKE = """
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local wait, left = 0, {}
for i, key in ipairs(KEYS) do
  local rate, burst, cost = tonumber(ARGV[3 * i - 2]), tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
  local bucket = redis.call('HMGET', key, 'tokens', 'at')
  local tokens, at = tonumber(bucket[1]) or burst, tonumber(bucket[2]) or now
  tokens = math.min(burst, tokens + math.max(0, now - at) * rate)
  if tokens < cost then wait = math.max(wait, (cost - tokens) / rate) end
  left[i] = math.min(burst, tokens - cost)
end
if wait > 0 then return tostring(wait) end
for i, key in ipairs(KEYS) do
  local rate, burst = tonumber(ARGV[3 * i - 2]), tonumber(ARGV[3 * i - 1])
  redis.call('HSET', key, 'tokens', string.format('%.6f', left[i]), 'at', string.format('%.6f', now))
  redis.call('PEXPIRE', key, math.ceil((burst - left[i]) / rate * 1000) + 1000)
end
return '0'
"""


@dataclass(frozen=True, slots=True)
class Limit:
    """A rate limit: bursts of `burst`, and `rate` per second on average. `name` is part of the keys of its buckets."""

    name: str
    rate: float
    burst: int

    def __post_init__(self) -> None:
        if self.rate <= 0 or self.burst < 1:
            raise ValueError(f"The limit {self.name} needs a positive rate and burst, not {self.rate}, {self.burst}")

    def key(self, subject: str) -> str:
        return f"limit:{self.name}:{subject}"


@dataclass(frozen=True, slots=True)
class Charge:
    """Tokens to take from a subject's bucket. A cost above the burst can never be taken."""

    limit: Limit
    subject: str
    cost: int = 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the tokens were taken. If not, none were, and they are available in `retry_after` seconds."""

    allowed: bool
    retry_after: float

    def require(self) -> None:
        """Raises `RateLimited` unless allowed."""
        if not self.allowed:
            seconds = math.ceil(self.retry_after)
            raise RateLimited(f"Too many requests. Try again in {seconds} s.", retry_after=self.retry_after)


GRANTED = Verdict(allowed=True, retry_after=0)


class RateLimiter:
    """Takes tokens from buckets. Blocking and thread-safe."""

    def __init__(self, client: "redis.Redis") -> None:
        self._script = client.register_script(_TAKE)

    def take(self, limit: Limit, subject: str, cost: int = 1) -> Verdict:
        """Take `cost` tokens from the subject's bucket, or none."""
        return self.take_all([Charge(limit, subject, cost)])

    def take_all(self, charges: Sequence[Charge]) -> Verdict:
        """Take the tokens of all charges, or none at all, in one request to Redis."""
        with naming_failures():
            return _verdict(self._script(keys=_keys(charges), args=_arguments(charges)))

    def refund(self, limit: Limit, subject: str, cost: int = 1) -> None:
        """Return tokens of an operation that failed. The bucket never holds more than its burst."""
        self.take(limit, subject, -cost)


class AsyncRateLimiter:
    """The same for an event loop."""

    def __init__(self, client: "redis.asyncio.Redis") -> None:
        self._script = client.register_script(_TAKE)

    async def take_all(self, charges: Sequence[Charge]) -> Verdict:
        """Take the tokens of all charges, or none at all, in one request to Redis."""
        with naming_failures():
            return _verdict(await self._script(keys=_keys(charges), args=_arguments(charges)))


def _keys(charges: Sequence[Charge]) -> list[str]:
    return [charge.limit.key(charge.subject) for charge in charges]


def _arguments(charges: Sequence[Charge]) -> list[float]:
    return [value for charge in charges for value in (charge.limit.rate, charge.limit.burst, charge.cost)]


def _verdict(answer: object) -> Verdict:
    wait = float(cast(bytes, answer))
    return Verdict(allowed=wait == 0, retry_after=wait)


class LeasingRateLimiter:
    """Takes single tokens of frequent limits some ahead, so that most requests of a busy subject ask nothing.

    A lease is a hundredth of what the limit grants a second. Tokens that are not used within a second are lost. For
    one event loop.
    """

    def __init__(self, shared: AsyncRateLimiter, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._shared = shared
        self._monotonic = monotonic
        self._leases: OrderedDict[str, tuple[int, float]] = OrderedDict()

    async def take_all(self, charges: Sequence[Charge]) -> Verdict:
        """Take the tokens of all charges, or none at all."""
        charge = charges[0]
        size = int(charge.limit.rate * LEASE_SECONDS)
        if len(charges) > 1 or charge.cost > 1 or size <= 1:
            return await self._shared.take_all(charges)
        key = charge.limit.key(charge.subject)
        if not self._tokens(key):
            leased = await self._shared.take_all([Charge(charge.limit, charge.subject, size)])
            if not leased.allowed:
                return await self._shared.take_all(charges)
            self._store(key, self._tokens(key) + size)
        self._leases[key] = (self._tokens(key) - 1, self._leases[key][1])
        return GRANTED

    def _tokens(self, key: str) -> int:
        tokens, until = self._leases.get(key, (0, 0.0))
        return tokens if self._monotonic() < until else 0

    def _store(self, key: str, tokens: int) -> None:
        self._leases[key] = (tokens, self._monotonic() + LEASE_LIFETIME)
        self._leases.move_to_end(key)
        if len(self._leases) > LOCAL_BUCKETS:
            self._leases.popitem(last=False)


class LocalRateLimiter:
    """The same buckets in the memory of this process, for the subjects seen last. For one event loop."""

    def __init__(self, *, capacity: int = LOCAL_BUCKETS, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._capacity = capacity
        self._monotonic = monotonic
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take_all(self, charges: Sequence[Charge]) -> Verdict:
        """Take the tokens of all charges, or none at all."""
        now = self._monotonic()
        tokens = [self._tokens(charge, now) for charge in charges]
        wait = max((charge.cost - held) / charge.limit.rate for charge, held in zip(charges, tokens, strict=True))
        if wait > 0:
            return Verdict(allowed=False, retry_after=wait)
        for charge, held in zip(charges, tokens, strict=True):
            self._store(charge.limit.key(charge.subject), (held - charge.cost, now))
        return GRANTED

    def _tokens(self, charge: Charge, now: float) -> float:
        limit = charge.limit
        tokens, at = self._buckets.get(limit.key(charge.subject), (float(limit.burst), now))
        return min(float(limit.burst), tokens + (now - at) * limit.rate)

    def _store(self, key: str, bucket: tuple[float, float]) -> None:
        self._buckets[key] = bucket
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._capacity:
            self._buckets.popitem(last=False)


class FallbackRateLimiter:
    """Takes tokens in Redis and, while Redis is away, from this process's own buckets. Never raises.

    For one event loop.
    """

    def __init__(
        self, shared: AsyncRateLimiter | LeasingRateLimiter, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._shared = shared
        self._local = LocalRateLimiter(monotonic=monotonic)
        self._monotonic = monotonic
        self._away_until = 0.0

    async def take_all(self, charges: Sequence[Charge]) -> Verdict:
        """Take the tokens of all charges, or none at all."""
        now = self._monotonic()
        if now >= self._away_until:
            if self._away_until:
                # One request finds out whether Redis is back; the others do not wait for it.
                self._away_until = now + RETRY_REDIS_AFTER
            try:
                verdict = await self._shared.take_all(charges)
            except StoreUnavailable:
                self._away_until = self._monotonic() + RETRY_REDIS_AFTER
            else:
                self._away_until = 0.0
                return verdict
        LOCALLY_LIMITED_REQUESTS.inc()
        return self._local.take_all(charges)
