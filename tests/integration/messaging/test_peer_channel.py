"""The channels between processes, on Redis."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import pytest
import redis
import redis.asyncio

from engines.redis import RedisEngine
from foundation.stores.errors import StoreUnavailable
from foundation.stores.redis import subscriptions
from foundation.stores.redis.client import RedisOptions, connect_async
from messaging.stores import peer_channel
from messaging.stores.peer_channel import PeerChannel
from tests.redis_proxy import RedisProxy

NO_SERVER = "127.0.0.1", "1"


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


class TestAFailover:
    """A replica takes what is published, and passes it on to nobody at the primary."""

    @pytest.fixture(autouse=True)
    def _a_primary_again(self, redis_client: redis.Redis) -> Iterator[None]:
        yield
        redis_client.replicaof("NO", "ONE")

    @pytest.fixture
    def successor_url(self) -> Iterator[str]:
        """The next primary."""
        with RedisEngine() as url:
            yield url

    async def test_a_replica_is_not_published_to(
        self, client: "redis.asyncio.Redis", redis_client: redis.Redis
    ) -> None:
        redis_client.replicaof(*NO_SERVER)
        with pytest.raises(StoreUnavailable):
            await PeerChannel(client).publish("gw-1:a", b"")

    async def test_connections_of_before_the_failover_are_replaced(
        self, redis_url: str, redis_client: redis.Redis, successor_url: str
    ) -> None:
        with RedisProxy(redis_url).listening() as proxy:
            async with (
                connect_async(RedisOptions(proxy.url)) as client,
                connect_async(RedisOptions(successor_url)) as successor,
                aclosing(PeerChannel(successor).listen("gw-1:a")) as payloads,  # type: ignore[type-var]
            ):
                await anext(payloads)
                channel = PeerChannel(client)
                assert await channel.publish("gw-1:a", b"before") == 0
                redis_client.replicaof(*NO_SERVER)
                proxy.lead_to(successor_url)
                assert await channel.publish("gw-1:a", b"after") == 1
                assert await anext(payloads) == b"after"

    async def test_a_subscription_at_a_server_that_is_a_replica_by_now_is_broken(
        self, redis_url: str, redis_client: redis.Redis, successor_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(subscriptions, "CHECK_EVERY", 0.5)
        monkeypatch.setattr(peer_channel, "CHECK_EVERY", 0.5)
        with RedisProxy(redis_url).listening() as proxy:
            async with (
                connect_async(RedisOptions(proxy.url)) as client,
                aclosing(PeerChannel(client).listen("gw-1:a")) as payloads,  # type: ignore[type-var]
            ):
                await anext(payloads)
                redis_client.replicaof(*NO_SERVER)
                proxy.lead_to(successor_url)
                with pytest.raises(StoreUnavailable):
                    async with asyncio.timeout(10):
                        await anext(payloads)
