"""Clients of Redis with short timeouts.

Redis may disappear and come back empty at any time, or answer with an error: out of memory, read-only after a
failover, loading. All of this means that Redis is away. Clients reconnect by themselves; callers get
`StoreUnavailable` and decide whether to go on without.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import MasterDownError, ReadOnlyError, RedisError
from redis.retry import Retry

from foundation.stores.errors import StoreUnavailable

AWAY = (RedisError, OSError)
# Written and refreshed to learn whether Redis takes writes. Holds nothing.
PROBE_KEY = "limit:readyz"
PROBE_TTL = 10


@dataclass(frozen=True, slots=True)
class RedisOptions:
    """Where Redis is. Timeouts in seconds."""

    url: str
    connect_timeout: float = 0.5
    answer_timeout: float = 1.0
    retries: int = 1
    pool_size: int = 64

    def keywords(self) -> dict[str, Any]:
        return {
            "socket_connect_timeout": self.connect_timeout,
            "socket_timeout": self.answer_timeout,
            "max_connections": self.pool_size,
            "health_check_interval": 15,
            # After a failover the server at the other end may be a replica: connect anew, then try once more.
            "retry_on_error": [ReadOnlyError, MasterDownError],
            # With protocol 3 the client formats every delivery for its debug log, also when that is off.
            "protocol": 2,
        }


def connect(options: RedisOptions) -> "redis.Redis":
    """A client for threads. Connects at first use; returns `bytes`."""
    retry = Retry(ExponentialWithJitterBackoff(cap=0.2, base=0.02), options.retries)
    return redis.Redis.from_url(options.url, retry=retry, **options.keywords())


def connect_async(options: RedisOptions) -> "redis.asyncio.Redis":
    """A client for the event loop. Connects at first use; returns `bytes`."""
    retry = AsyncRetry(ExponentialWithJitterBackoff(cap=0.2, base=0.02), options.retries)
    return redis.asyncio.Redis.from_url(options.url, retry=retry, **options.keywords())


@contextmanager
def naming_failures() -> Iterator[None]:
    """Turn every error of Redis, or of the connection to it, into `StoreUnavailable`."""
    try:
        yield
    except AWAY as error:
        raise away(error) from error


def away(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(f"Redis cannot serve this ({type(error).__name__})")


def require_writable(client: "redis.Redis") -> None:
    """Write a key that expires. Raises `StoreUnavailable`: a Redis that only answers a ping is not ready."""
    with naming_failures():
        client.set(PROBE_KEY, b"", ex=PROBE_TTL)
