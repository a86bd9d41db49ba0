"""The subscription of a process, on a client library that loses cancellations. With Redis: the integration tests."""

import asyncio
from contextlib import aclosing, suppress
from unittest.mock import AsyncMock, MagicMock, Mock

import pytest
import redis.asyncio
from redis.asyncio.client import Pipeline, PubSub

from messaging.stores import peer_channel
from messaging.stores.peer_channel import PeerChannel


async def test_a_cancellation_that_is_lost_while_the_primary_is_asked_ends_the_subscription(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer_channel, "CHECK_EVERY", 0.0)
    is_asking, silence = asyncio.Event(), asyncio.Event()
    messages = [{"type": "subscribe"}, {"type": "pong"}]

    async def get_message(**_: object) -> dict[str, str]:
        if not messages:
            await silence.wait()
        return messages.pop(0)

    async def lose_a_cancellation() -> list[object]:
        is_asking.set()
        with suppress(asyncio.CancelledError):
            await silence.wait()
        return [True, [(b"home:gw-1:a", 1)]]

    pubsub = Mock(PubSub, subscribe=AsyncMock(), get_message=get_message)
    pipeline = Mock(Pipeline, execute=lose_a_cancellation)
    client = Mock(redis.asyncio.Redis)
    client.pubsub.return_value = MagicMock(__aenter__=AsyncMock(return_value=pubsub))
    client.pipeline.return_value = MagicMock(__aenter__=AsyncMock(return_value=pipeline))

    async def listen() -> None:
        async with aclosing(PeerChannel(client).listen("gw-1:a")) as payloads:  # type: ignore[type-var]
            async for _ in payloads:
                pass

    listening = asyncio.create_task(listen())
    async with asyncio.timeout(5):
        await is_asking.wait()
    listening.cancel()
    done, _ = await asyncio.wait([listening], timeout=1)
    silence.set()
    assert done == {listening}
    assert listening.cancelled()
