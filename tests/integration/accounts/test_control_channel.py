"""Notices of revocation over the real channel layer."""

import asyncio
import socket

import pytest
from asgiref.sync import sync_to_async
from channels_redis.pubsub import RedisPubSubChannelLayer  # type: ignore[import-untyped]

from foundation.kernel.ids import SessionId
from foundation.stores.errors import StoreUnavailable
from foundation.stores.redis.control import GROUP, SESSION_REVOKED, ControlChannel

SESSION = SessionId("sess_01KG7Y4QZ9B2C3D4E5F6G7H8J9")


async def test_a_listener_receives_the_notice(redis_url: str) -> None:
    layer = RedisPubSubChannelLayer(hosts=[redis_url])
    listener = await layer.new_channel()
    await layer.group_add(GROUP, listener)
    try:
        await sync_to_async(ControlChannel(layer, timeout=10).publish_revocation, thread_sensitive=False)([SESSION])
        heard = await asyncio.wait_for(layer.receive(listener), 10)
    finally:
        await layer.flush()
    assert heard == {"type": SESSION_REVOKED, "session_ids": [SESSION]}


async def test_a_plain_thread_can_publish(redis_url: str) -> None:
    layer = RedisPubSubChannelLayer(hosts=[redis_url])
    listener = await layer.new_channel()
    await layer.group_add(GROUP, listener)
    try:
        await asyncio.get_running_loop().run_in_executor(
            None, ControlChannel(layer, timeout=10).publish_revocation, [SESSION]
        )
        heard = await asyncio.wait_for(layer.receive(listener), 10)
    finally:
        await layer.flush()
    assert heard["session_ids"] == [SESSION]
    assert len(layer._layers) == 1


def test_without_redis_the_store_is_unavailable() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        layer = RedisPubSubChannelLayer(hosts=[f"redis://127.0.0.1:{reserved.getsockname()[1]}/0"])
        with pytest.raises(StoreUnavailable):
            ControlChannel(layer, timeout=10).publish_revocation([SESSION])


def test_a_hanging_redis_times_out() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        layer = RedisPubSubChannelLayer(hosts=[f"redis://127.0.0.1:{silent.getsockname()[1]}/0"])
        with pytest.raises(StoreUnavailable):
            ControlChannel(layer, timeout=0.1).publish_revocation([SESSION])
