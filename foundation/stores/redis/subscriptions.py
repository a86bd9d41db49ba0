"""Noticing that the Redis of a subscription has gone silent.

The client library sends pings and requires no answers: it would listen to a connection that a failover has cut off
until the kernel gives it up.
"""

import asyncio
from typing import Any

import redis
from redis.asyncio.client import PubSub

CHECK_EVERY = 5.0
"""Seconds of silence after which Redis is asked to answer, within as many."""


async def answer_to_ping(pubsub: PubSub) -> dict[str, Any]:
    """Ask whether the connection lives, after some silence; return what arrives next: a pong, or a message.

    Raises Redis's errors, among them `ConnectionError` when nothing arrives.
    """
    await pubsub.ping()
    require_not_cancelled()
    message: dict[str, Any] | None = await pubsub.get_message(timeout=CHECK_EVERY)
    if message is None:
        raise redis.ConnectionError("Redis does not answer a subscriber")
    return message


def require_not_cancelled() -> None:
    """Raises `CancelledError`. The client library sends with `wait_for`, which loses a cancellation that comes as the
    sending ends (Python 3.11): its task would listen for ever."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
