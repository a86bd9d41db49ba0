"""The channels between processes, on Redis."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
import redis
import redis.asyncio

from foundation.stores.errors import StoreUnavailable
from foundation.stores.redis import subscriptions
from foundation.stores.redis.client import RedisOptions, connect_async
from messaging.stores.peer_channel import PeerChannel
from tests.redis_proxy import RedisProxy


@pytest.fixture
async def client(redis_url: str, redis_client: redis.Redis) -> AsyncIterator["redis.asyncio.Redis"]:
    client = connect_async(RedisOptions(redis_url))
    yield client
    await client.aclose()


class TestChannel:
    async def test_what_is_published_arrives_in_order_at_its_name_only(self, client: "redis.asyncio.Redis") -> None:
        channel = PeerChannel(client)
        async with aclosing(channel.listen("gw-1:a")) as payloads:  # type: ignore[type-var]
            assert await anext(payloads) is None
            assert await channel.publish("gw-1:b", b"another epoch") == 0
            assert [await channel.publish("gw-1:a", payload) for payload in (b"1", b"2")] == [1, 1]
            assert [await anext(payloads), await anext(payloads)] == [b"1", b"2"]

    async def test_a_hundred_processes_are_written_to_at_once(self, redis_url: str) -> None:
        client = connect_async(RedisOptions(redis_url, answer_timeout=10))
        channel = PeerChannel(client)
        async with aclosing(channel.listen("gw-1:a")) as payloads:  # type: ignore[type-var]
            assert await anext(payloads) is None
            reached = await asyncio.gather(*(channel.publish(f"gw-{number}:a", b"") for number in range(100)))
        assert sum(reached) == 1
        await client.aclose()

    async def test_a_subscription_that_broke_is_told_also_if_the_client_reconnects(
        self, client: "redis.asyncio.Redis", redis_client: redis.Redis
    ) -> None:
        async with aclosing(PeerChannel(client).listen("gw-1:a")) as payloads:  # type: ignore[type-var]
            await anext(payloads)
            redis_client.client_kill_filter(_type="pubsub")
            with pytest.raises(StoreUnavailable):
                async with asyncio.timeout(10):
                    await anext(payloads)

    async def test_a_subscription_that_has_gone_silent_is_broken(
        self, redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with RedisProxy(redis_url).listening() as proxy:
            async with (
                connect_async(RedisOptions(proxy.url)) as client,
                aclosing(PeerChannel(client).listen("gw-1:a")) as payloads,  # type: ignore[type-var]
            ):
                await anext(payloads)
                monkeypatch.setattr(subscriptions, "CHECK_EVERY", 0.05)
                assert proxy.deafen_subscribers() == 1
                with pytest.raises(StoreUnavailable):
                    async with asyncio.timeout(10):
                        await anext(payloads)

    async def test_a_redis_that_is_away_is_store_unavailable(self) -> None:
        channel = PeerChannel(connect_async(RedisOptions("redis://127.0.0.1:1/0")))
        with pytest.raises(StoreUnavailable):
            await channel.publish("gw-1:a", b"")
        with pytest.raises(StoreUnavailable):
            await anext(channel.listen("gw-1:a"))
