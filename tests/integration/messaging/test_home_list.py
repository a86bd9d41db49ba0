"""The list of homes in Redis."""

from collections.abc import AsyncIterator

import pytest
import redis
import redis.asyncio

from foundation.stores.errors import StoreUnavailable
from foundation.stores.redis.client import RedisOptions, connect_async
from messaging.stores.homes import KEY, TTL_SECONDS, RedisHomeList


@pytest.fixture
async def client(redis_url: str, redis_client: redis.Redis) -> AsyncIterator["redis.asyncio.Redis"]:
    client = connect_async(RedisOptions(redis_url))
    yield client
    await client.aclose()


class TestTheList:
    async def test_every_process_that_refreshes_is_in_it(self, client: "redis.asyncio.Redis") -> None:
        homes = RedisHomeList(client)
        assert await homes.refresh("a:1") == ["a:1"]
        assert sorted(await homes.refresh("b:1")) == ["a:1", "b:1"]
        assert await homes.refresh("b:1", former=["a:1"]) == ["b:1"]

    async def test_a_process_that_is_not_to_be_in_it_can_look(self, client: "redis.asyncio.Redis") -> None:
        homes = RedisHomeList(client)
        await homes.refresh("a:1")
        assert await homes.refresh(None) == ["a:1"]

    async def test_a_process_that_does_not_refresh_is_pruned(
        self, client: "redis.asyncio.Redis", redis_client: redis.Redis
    ) -> None:
        homes = RedisHomeList(client)
        await homes.refresh("a:1")
        redis_client.zincrby(KEY, -TTL_SECONDS - 0.1, "a:1")
        assert await homes.refresh("b:1") == ["b:1"]

    async def test_an_entry_from_a_clock_that_was_set_back_is_pruned(
        self, client: "redis.asyncio.Redis", redis_client: redis.Redis
    ) -> None:
        homes = RedisHomeList(client)
        await homes.refresh("a:1")
        redis_client.zincrby(KEY, 3600, "a:1")
        assert await homes.refresh("b:1") == ["b:1"]

    async def test_a_redis_that_is_away_is_store_unavailable(self) -> None:
        homes = RedisHomeList(connect_async(RedisOptions("redis://127.0.0.1:1/0")))
        with pytest.raises(StoreUnavailable):
            await homes.refresh("a:1")
