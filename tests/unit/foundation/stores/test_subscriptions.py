"""Reading from subscriptions, whatever the client library does."""

import asyncio
from unittest.mock import AsyncMock, Mock

import pytest
from redis.asyncio.client import PubSub

from foundation.stores.redis.subscriptions import answer_to_ping


async def test_a_cancellation_that_the_client_library_loses_ends_the_reading() -> None:
    is_sending, get_message = asyncio.Event(), AsyncMock(return_value={"type": "pong"})

    async def lose_a_cancellation() -> None:
        is_sending.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    reading = asyncio.ensure_future(answer_to_ping(Mock(PubSub, ping=lose_a_cancellation, get_message=get_message)))
    await is_sending.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
