"""The subscription of a gateway on a real Redis."""

import asyncio
from unittest.mock import Mock

import orjson
import pytest
import redis

from delivery.gateway.deliveries import Deliveries
from delivery.stores.connections import deliver_channel
from foundation.stores.redis import subscriptions
from foundation.stores.redis.client import RedisOptions, connect_async
from tests.redis_proxy import RedisProxy
from tests.unit.delivery.fake_sockets import FakeSocket


async def test_a_subscription_that_has_gone_silent_is_made_again_and_told(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "CHECK_EVERY", 0.5)
    ann, lost = FakeSocket("ann"), asyncio.Event()
    message = {"type": "message", "chat_id": "chat", "sequence": 1}
    with RedisProxy(redis_url).listening() as proxy:
        async with connect_async(RedisOptions(proxy.url)) as client, asyncio.timeout(20):
            deliveries = Deliveries(client, gateway_id="gw", sockets={"gw.ann": ann}, live=Mock(), on_lost=lost.set)
            running = asyncio.ensure_future(deliveries.run())
            try:
                await deliveries.subscribed.wait()
                lost.clear()  # the socket was there before the first subscription
                assert proxy.deafen_subscribers()
                await lost.wait()
                payload = {"deliveries": [{"connection_ids": ["gw.ann"], "messages": [message]}]}
                redis_client.publish(deliver_channel("gw"), orjson.dumps(payload))
                await ann.has_frames.wait()
            finally:
                running.cancel()
