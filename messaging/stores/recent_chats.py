"""The chats that were written lately: the sorted set `recent_chats` in Redis, scored by the time of the last note.

A hint for `manage.py reconcile --watch`, which looks there for messages whose event a crash has lost. Disposable.
"""

from collections.abc import Collection
from typing import cast

import redis
import redis.asyncio

from foundation.kernel.ids import ChatId
from foundation.stores.redis.client import naming_failures

KEY = "recent_chats"
TTL_SECONDS = 3600


class RecentChatsWriter:
    """Of a `web` process."""

    def __init__(self, client: "redis.asyncio.Redis") -> None:
        self._client = client

    async def add(self, chat_ids: Collection[ChatId], *, now: float) -> None:
        """Note that these chats are written, and drop notes older than an hour."""
        with naming_failures():
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.zadd(KEY, dict.fromkeys(chat_ids, now))
                pipe.zremrangebyscore(KEY, "-inf", now - TTL_SECONDS)
                pipe.expire(KEY, TTL_SECONDS)
                await pipe.execute()


class RecentChatsReader:
    """Of an operator's tool. Blocking."""

    def __init__(self, client: "redis.Redis") -> None:
        self._client = client

    def since(self, moment: float) -> list[ChatId]:
        """The chats noted since then. Raises `StoreUnavailable`."""
        with naming_failures():
            found = cast("list[bytes]", self._client.zrangebyscore(KEY, moment, "+inf"))
        return [ChatId(chat_id.decode()) for chat_id in found]
