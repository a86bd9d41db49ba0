"""Reading from subscriptions of a Redis that is quiet, and of one that has gone silent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import redis
from redis.asyncio.client import PubSub

from foundation.stores.redis import subscriptions
from foundation.stores.redis.client import RedisOptions, connect_async
from foundation.stores.redis.subscriptions import next_message
from tests.redis_proxy import RedisProxy

CHANNEL = "a channel"


@asynccontextmanager
async def subscribed(redis_url: str) -> AsyncIterator[PubSub]:
    async with connect_async(RedisOptions(redis_url)) as client, client.pubsub() as pubsub:
        await pubsub.subscribe(CHANNEL)
        assert (await next_message(pubsub))["type"] == "subscribe"
        yield pubsub


class TestNextMessage:
    async def test_a_quiet_redis_is_asked_and_listened_to(
        self, redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(subscriptions, "CHECK_EVERY", 0.5)
        async with subscribed(redis_url) as pubsub:
            assert [(await next_message(pubsub))["type"] for _ in range(2)] == ["pong"] * 2
            redis_client.publish(CHANNEL, b"news")
            assert (await next_message(pubsub))["data"] == b"news"

    async def test_a_redis_that_does_not_answer_is_away(
        self, redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with RedisProxy(redis_url).listening() as proxy:
            async with subscribed(proxy.url) as pubsub:
                monkeypatch.setattr(subscriptions, "CHECK_EVERY", 0.05)
                assert proxy.deafen_subscribers() == 1
                with pytest.raises(redis.ConnectionError):
                    async with asyncio.timeout(10):
                        await next_message(pubsub)
