"""Rate limits shared by all processes: token buckets in Redis, under `limit:`.

A bucket holds up to `burst` tokens and refills at `rate` per second. One script updates it by the clock of Redis, so
neither concurrency nor clock skew exceeds the limit. A missing bucket is full. Without Redis, every method raises
`StoreUnavailable`, and the caller decides whether to fail open or closed.
"""

import math
from dataclasses import dataclass
from typing import Any

import redis

from foundation.kernel.errors import RateLimited
from foundation.stores.redis.client import naming_failures

_TAKE = """
local rate, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(bucket[1]) or burst, tonumber(bucket[2]) or now
tokens = math.min(burst, tokens + math.max(0, now - at) * rate)
if tokens < cost then
  return {0, tostring((cost - tokens) / rate)}
end
tokens = math.min(burst, tokens - cost)
redis.call('HSET', KEYS[1], 'tokens', string.format('%.6f', tokens), 'at', string.format('%.6f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil((burst - tokens) / rate * 1000) + 1000)
return {1, '0'}
"""


@dataclass(frozen=True, slots=True)
class Limit:
    """A rate limit: bursts of `burst`, and `rate` per second on average. `name` is part of the keys of its buckets."""

    name: str
    rate: float
    burst: int

    def key(self, subject: str) -> str:
        return f"limit:{self.name}:{subject}"


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


class RateLimiter:
    """Takes tokens from buckets. Blocking and thread-safe."""

    def __init__(self, client: "redis.Redis") -> None:
        self._take = client.register_script(_TAKE)

    def take(self, limit: Limit, subject: str, cost: int = 1) -> Verdict:
        """Take `cost` tokens from the subject's bucket, or none. A cost above the burst is never allowed."""
        with naming_failures():
            answer: Any = self._take(keys=[limit.key(subject)], args=[limit.rate, limit.burst, cost])
        allowed, retry_after = answer
        return Verdict(allowed=bool(allowed), retry_after=float(retry_after))

    def refund(self, limit: Limit, subject: str, cost: int = 1) -> None:
        """Return tokens of an operation that failed. The bucket never holds more than its burst."""
        self.take(limit, subject, -cost)
