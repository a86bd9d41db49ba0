"""Reading from subscriptions of a Redis that is quiet, and of one that has gone silent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import redis
from redis.asyncio.client import PubSub

from foundation.stores.redis import subscriptions
from foundation.stores.redis.client import RedisOptions, connect_async
from foundation.stores.redis.subscriptions import answer_to_ping
from tests.redis_proxy import RedisProxy

CHANNEL = "a channel"


@asynccontextmanager
async def subscribed(redis_url: str) -> AsyncIterator[PubSub]:
    async with connect_async(RedisOptions(redis_url)) as client, client.pubsub() as pubsub:
        await pubsub.subscribe(CHANNEL)
        confirmation = await pubsub.get_message(timeout=10)
        assert confirmation is not None
        assert confirmation["type"] == "subscribe"
        yield pubsub


class TestAnswerToPing:
    async def test_a_quiet_redis_is_asked_and_listened_to(self, redis_url: str, redis_client: redis.Redis) -> None:
        async with subscribed(redis_url) as pubsub:
            assert [(await answer_to_ping(pubsub))["type"] for _ in range(2)] == ["pong"] * 2
            redis_client.publish(CHANNEL, b"news")
            assert (await answer_to_ping(pubsub))["data"] == b"news"

    async def test_a_redis_that_does_not_answer_is_away(
        self, redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with RedisProxy(redis_url).listening() as proxy:
            async with subscribed(proxy.url) as pubsub:
                monkeypatch.setattr(subscriptions, "CHECK_EVERY", 0.05)
                assert proxy.deafen_subscribers() == 1
                with pytest.raises(redis.ConnectionError):
                    async with asyncio.timeout(10):
                        await answer_to_ping(pubsub)
