"""Clients of Redis with short timeouts.

Redis may disappear and come back empty at any time. Clients reconnect by themselves; callers get `StoreUnavailable`
and decide whether to go on without.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import BusyLoadingError, ConnectionError, MaxConnectionsError, TimeoutError
from redis.retry import Retry

from foundation.stores.errors import StoreUnavailable

_AWAY = (ConnectionError, TimeoutError, BusyLoadingError, MaxConnectionsError)


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
    """Turn every exception that means "Redis is away" into `StoreUnavailable`."""
    try:
        yield
    except _AWAY as error:
        raise StoreUnavailable(f"Redis did not answer ({type(error).__name__})") from error
