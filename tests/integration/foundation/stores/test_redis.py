"""The clients: they reconnect by themselves, and name their failures."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
import redis
from redis.exceptions import NoScriptError, OutOfMemoryError, ReadOnlyError, ResponseError

from foundation.stores.errors import StoreUnavailable
from foundation.stores.redis.client import RedisOptions, connect, connect_async, naming_failures, require_writable
from foundation.stores.redis.limits import Limit, RateLimiter


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


class TestThePoolOfTheEventLoop:
    async def test_calls_beyond_its_connections_wait(self, redis_url: str) -> None:
        async with connect_async(RedisOptions(redis_url, pool_size=4, answer_timeout=10)) as client:
            assert len(set(await asyncio.gather(*(client.incr("calls") for _ in range(100))))) == 100

    async def test_a_connection_that_is_never_free_is_store_unavailable(self, redis_url: str) -> None:
        async with connect_async(RedisOptions(redis_url, pool_size=1, answer_timeout=0.05)) as client:
            async with client.pubsub() as pubsub:
                await pubsub.subscribe("a channel")
                with pytest.raises(StoreUnavailable), naming_failures():
                    await client.ping()
            assert await client.ping()

    async def test_a_call_that_is_given_up_leaves_its_place(self, redis_url: str) -> None:
        async with connect_async(RedisOptions(redis_url, pool_size=1, answer_timeout=10)) as client:
            async with client.pubsub() as pubsub:
                await pubsub.subscribe("a channel")
                given_up, next_one = (asyncio.ensure_future(client.get("key")) for _ in range(2))
                await asyncio.sleep(0)
                given_up.cancel()
            assert await next_one is None
            assert given_up.cancelled()


def out_of_memory(client: redis.Redis) -> None:
    client.config_set("maxmemory", "1mb")


def read_only(client: redis.Redis) -> None:
    client.replicaof("127.0.0.1", "1")


class TestErrors:
    """A Redis that answers with errors is away, like one that does not answer."""

    @pytest.fixture(autouse=True)
    def _well_again(self, redis_client: redis.Redis) -> Iterator[None]:
        yield
        redis_client.replicaof("NO", "ONE")
        redis_client.config_set("maxmemory", "0")

    @pytest.mark.parametrize("error", [OutOfMemoryError, ReadOnlyError, NoScriptError, ResponseError])
    def test_every_error_of_redis_is_store_unavailable(self, error: type[Exception]) -> None:
        with pytest.raises(StoreUnavailable, match=error.__name__), naming_failures():
            raise error("a message that is not passed on")

    @pytest.mark.parametrize("break_it", [out_of_memory, read_only])
    def test_writes_that_redis_refuses_are_store_unavailable_and_it_is_not_ready(
        self, client: redis.Redis, redis_client: redis.Redis, break_it: Callable[[redis.Redis], None]
    ) -> None:
        require_writable(client)
        break_it(redis_client)
        assert client.ping()
        with pytest.raises(StoreUnavailable):
            require_writable(client)
        with pytest.raises(StoreUnavailable):
            RateLimiter(client).take(Limit("reads", rate=1, burst=1), "ann")

    def test_after_a_failover_the_client_connects_anew(self, client: redis.Redis, redis_client: redis.Redis) -> None:
        """The address now leads to another server, but a connection leads to the old one until it is closed."""
        before = client.client_id()
        read_only(redis_client)
        with pytest.raises(StoreUnavailable):
            require_writable(client)
        assert client.client_id() != before
