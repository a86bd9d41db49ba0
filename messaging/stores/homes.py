"""The list of `web` processes that commit for chats: the sorted set `homes` in Redis, scored by the clock of Redis.

Disposable: after a loss every process enters itself again within half a second.
"""

from collections.abc import Iterable
from typing import cast

import redis.asyncio

from foundation.stores.redis.client import naming_failures

KEY = "homes"
TTL_SECONDS = 2

# ARGV: seconds, a name or nothing, former names. A score in the future is left from a clock that was set back; it would
# never be pruned.
_REFRESH = """
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
if ARGV[2] ~= '' then redis.call('ZADD', KEYS[1], string.format('%.6f', now), ARGV[2]) end
for i = 3, #ARGV do redis.call('ZREM', KEYS[1], ARGV[i]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.6f', now - ARGV[1]))
redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%.6f', now + ARGV[1]), '+inf')
return redis.call('ZRANGE', KEYS[1], 0, -1)
"""


class RedisHomeList:
    """Implements `messaging.services.homes.HomeList`."""

    def __init__(self, client: "redis.asyncio.Redis") -> None:
        self._script = client.register_script(_REFRESH)

    async def refresh(self, name: str | None, *, former: Iterable[str] = ()) -> list[str]:
        """Enter or refresh a name, remove the former ones, prune those that were not refreshed, return the others."""
        with naming_failures():
            names = await self._script(keys=[KEY], args=[TTL_SECONDS, name or "", *former])
        return [found.decode() for found in cast("list[bytes]", names)]
