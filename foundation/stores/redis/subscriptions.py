"""Reading from subscriptions, which end when Redis goes silent.

The client library sends pings and requires no answers: it would listen to a connection that a failover has cut off
until the kernel gives it up.
"""

import asyncio
from typing import Any

import redis
from redis.asyncio.client import PubSub

CHECK_EVERY = 5.0
"""Seconds of silence after which Redis is asked to answer, within as many."""


async def next_message(pubsub: PubSub) -> dict[str, Any]:
    """Wait for the next message, confirmation of a subscription, or sign of life: a pong after some silence.

    Raises Redis's errors, among them `ConnectionError` when Redis does not even answer a ping.
    """
    for is_asked in (False, True):
        if is_asked:
            await pubsub.ping()
        _require_not_cancelled()
        message: dict[str, Any] | None = await pubsub.get_message(timeout=CHECK_EVERY)
        if message is not None:
            return message
    raise redis.ConnectionError("Redis does not answer a subscriber")


def _require_not_cancelled() -> None:
    """Raises `CancelledError`. The client library sends with `wait_for`, which loses a cancellation that comes as the
    sending ends (Python 3.11): its task would listen for ever."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
