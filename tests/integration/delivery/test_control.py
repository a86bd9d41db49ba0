"""The listener of control messages on a real Redis: it knows when notices may have been lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import redis
from redis.exceptions import ConnectionError as RedisConnectionError

from delivery.gateway import control
from delivery.gateway.control import ControlListener, ControlNotice
from foundation.kernel.ids import UserId
from foundation.stores.redis.channel_layer import ObservedChannelLayer
from foundation.stores.redis.control import ControlChannel
from tests.redis_proxy import RedisProxy

ADA = UserId("user_01KG7Y4QZ9B2C3D4E5F6G7H8J9")


@asynccontextmanager
async def listening(redis_url: str, *, name: str = "gw-one") -> AsyncIterator[ControlListener]:
    layer = ObservedChannelLayer(hosts=[redis_url])
    listener = ControlListener(lambda: layer, name=name)
    try:
        yield listener
    finally:
        await layer.flush()


async def notice_of(listener: ControlListener) -> ControlNotice:
    """The next notice that says something."""
    async with asyncio.timeout(20):
        while (notice := await listener.next_notice()) == ControlNotice():
            pass
        return notice


async def publish(redis_url: str) -> None:
    """As another process does."""
    layer = ObservedChannelLayer(hosts=[redis_url])
    await asyncio.to_thread(ControlChannel(layer, timeout=10).publish_privacy, ADA)
    await layer.flush()


async def test_once_it_has_joined_it_receives_every_notice(redis_url: str) -> None:
    async with listening(redis_url) as listener:
        assert await notice_of(listener) == ControlNotice(may_follow_a_gap=True)
        await publish(redis_url)
        assert await notice_of(listener) == ControlNotice(privacy_changed=frozenset({ADA}))


async def test_after_a_loss_of_its_connection_alone_it_says_that_notices_may_be_lost(
    redis_url: str, redis_client: "redis.Redis"
) -> None:
    async with listening(redis_url) as listener:
        assert await notice_of(listener) == ControlNotice(may_follow_a_gap=True)
        redis_client.client_kill_filter(_type="pubsub")
        assert await notice_of(listener) == ControlNotice(may_follow_a_gap=True)
        await publish(redis_url)
        assert await notice_of(listener) == ControlNotice(privacy_changed=frozenset({ADA}))


async def test_a_connection_that_has_gone_silent_is_replaced(
    redis_url: str, redis_client: "redis.Redis", monkeypatch: pytest.MonkeyPatch
) -> None:
    with RedisProxy(redis_url).listening() as proxy:
        async with listening(proxy.url) as listener:
            assert await notice_of(listener) == ControlNotice(may_follow_a_gap=True)
            monkeypatch.setattr(control, "CHECK_EVERY", 0.2)
            assert proxy.deafen_subscribers() == 1
            with pytest.raises(RedisConnectionError):
                await notice_of(listener)
            monkeypatch.undo()
            assert await notice_of(listener) == ControlNotice(may_follow_a_gap=True)
            await publish(redis_url)
            assert await notice_of(listener) == ControlNotice(privacy_changed=frozenset({ADA}))


async def test_a_quiet_connection_is_kept(
    redis_url: str, redis_client: "redis.Redis", monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening(redis_url) as listener:
        assert await notice_of(listener) == ControlNotice(may_follow_a_gap=True)
        monkeypatch.setattr(control, "CHECK_EVERY", 0.5)
        async with asyncio.timeout(20):
            # The probes that it sends are notices that say nothing.
            assert [await listener.next_notice() for _ in range(3)] == [ControlNotice()] * 3


async def test_probes_of_other_processes_say_nothing(redis_url: str) -> None:
    async with listening(redis_url) as one, listening(redis_url, name="gw-other") as other:
        assert await notice_of(one) == ControlNotice(may_follow_a_gap=True)
        assert await notice_of(other) == ControlNotice(may_follow_a_gap=True)
        await publish(redis_url)
        assert await notice_of(one) == ControlNotice(privacy_changed=frozenset({ADA}))
