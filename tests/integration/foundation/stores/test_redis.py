"""The client for threads: it reconnects by itself, and names its failures."""

import pytest
import redis

from foundation.stores.errors import StoreUnavailable
from foundation.stores.redis.client import RedisOptions, connect, naming_failures


@pytest.fixture
def client(redis_url: str, redis_client: redis.Redis) -> redis.Redis:
    """With the timeouts of production, on the tests' Redis."""
    return connect(RedisOptions(redis_url))


def get(client: redis.Redis, key: str) -> list[bytes | None]:
    pipe = client.pipeline(transaction=False)
    pipe.get(key)
    return list(pipe.execute())


class TestConnections:
    def test_a_connection_that_broke_is_replaced(self, client: redis.Redis, redis_client: redis.Redis) -> None:
        client.set("a", b"1")
        redis_client.client_kill_filter(_id=str(client.client_id()))
        assert get(client, "a") == [b"1"]

    def test_a_redis_that_is_away_is_store_unavailable(self) -> None:
        with pytest.raises(StoreUnavailable), naming_failures():
            get(connect(RedisOptions("redis://127.0.0.1:1/0")), "a")
