"""Redis: disposable routing state, reached with short patience.

Redis may vanish and come back empty at any time. So clients give up quickly, reconnect by themselves, and callers see
one failure, `StoreUnavailable`, and decide whether to go on without.
"""

from collections.abc import Iterator, Sequence
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
    """Where Redis is and how patient to be."""

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
            # In the newer protocol the client writes every delivery out for its debug log, read or not.
            "protocol": 2,
        }


def connect(options: RedisOptions) -> "redis.Redis":
    """A client for threads. Connects at first use; answers `bytes`."""
    retry = Retry(ExponentialWithJitterBackoff(cap=0.2, base=0.02), options.retries)
    return redis.Redis.from_url(options.url, retry=retry, **options.keywords())


def connect_async(options: RedisOptions) -> "redis.asyncio.Redis":
    """A client for the event loop. Connects at first use; answers `bytes`."""
    retry = AsyncRetry(ExponentialWithJitterBackoff(cap=0.2, base=0.02), options.retries)
    return redis.asyncio.Redis.from_url(options.url, retry=retry, **options.keywords())


def ask_together(client: "redis.Redis", commands: Sequence[Sequence[str | bytes]]) -> list[Any]:
    """Send commands in one go and return Redis' answers as they come, at half of what the client's pipeline costs.

    Tried again as a whole where the client would, so it is for commands that may be repeated.
    """
    pool = client.connection_pool
    connection: Any = pool.get_connection()

    def ask() -> list[Any]:
        connection.send_packed_command(connection.pack_commands(commands))
        return [connection.read_response() for _ in commands]

    try:
        answers: list[Any] = connection.retry.call_with_retry(ask, lambda _error: connection.disconnect())
    except BaseException:
        # Answers that nobody reads would be taken for those of the next who asks.
        connection.disconnect()
        raise
    else:
        return answers
    finally:
        pool.release(connection)


@contextmanager
def naming_failures() -> Iterator[None]:
    """Turn "Redis is away", in any of its forms, into `StoreUnavailable`."""
    try:
        yield
    except _AWAY as error:
        raise StoreUnavailable(f"Redis did not answer ({type(error).__name__})") from error
