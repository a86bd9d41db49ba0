"""Clients of Redis with short timeouts.

Redis may disappear and come back empty at any time, or answer with an error: out of memory, read-only after a
failover, loading. All of this means that Redis is away. Clients reconnect by themselves; callers get
`StoreUnavailable` and decide whether to go on without.
"""

import asyncio
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
    """Where Redis is. Timeouts in seconds. The event loop waits for a connection of its pool as for an answer."""

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


class WaitingPool(redis.asyncio.ConnectionPool):
    """Waits for a connection where redis-py's pool raises: a burst of calls does not mean that Redis is away.

    redis-py's own blocking pool doubles the cost of getting a connection, also while some are free.
    """

    def __init__(self, *, wait_seconds: float, **options: Any) -> None:
        super().__init__(**options)
        self._wait_seconds = wait_seconds
        self._waiting = 0
        self._released = asyncio.Condition()

    async def get_connection(self, *args: Any, **options: Any) -> Any:
        """Raises `ConnectionError` when none is released in time."""
        if self._waiting or not self.can_get_connection():
            await self._wait()
        return await super().get_connection(*args, **options)  # type: ignore[no-untyped-call]

    async def release(self, connection: Any) -> None:
        await super().release(connection)
        if self._waiting:
            async with self._released:
                self._released.notify()

    async def _wait(self) -> None:
        self._waiting += 1
        try:
            async with asyncio.timeout(self._wait_seconds), self._released:
                await self._released.wait_for(self.can_get_connection)
        except TimeoutError as error:
            raise redis.ConnectionError("All connections are in use") from error
        finally:
            self._waiting -= 1


def connect(options: RedisOptions) -> "redis.Redis":
    """A client for threads. Connects at first use; returns `bytes`."""
    retry = Retry(ExponentialWithJitterBackoff(cap=0.2, base=0.02), options.retries)
    return redis.Redis.from_url(options.url, retry=retry, **options.keywords())


def connect_async(options: RedisOptions) -> "redis.asyncio.Redis":
    """A client for the event loop. Connects at first use; returns `bytes`."""
    retry = AsyncRetry(ExponentialWithJitterBackoff(cap=0.2, base=0.02), options.retries)
    pool = WaitingPool.from_url(options.url, retry=retry, wait_seconds=options.answer_timeout, **options.keywords())
    return redis.asyncio.Redis.from_pool(pool)


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
