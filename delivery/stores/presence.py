"""Who is online: `user_presence:{user}` in Redis, written with the connections and expiring without them."""

from collections.abc import Collection, Sequence

import redis.asyncio

from delivery.stores.connections import presence_key, user_key
from foundation.kernel.ids import UserId
from foundation.stores.redis.client import naming_failures

KEYS_PER_READ = 1_000

# A connection that was registered meanwhile, at any gateway, keeps the user online.
_LEAVE = """
if redis.call('SCARD', KEYS[1]) > 0 then return 0 end
redis.call('DEL', KEYS[2])
return 1
"""


class PresenceStore:
    """For the event loop. Raises `StoreUnavailable` when Redis is away."""

    def __init__(self, client: "redis.asyncio.Redis") -> None:
        self._client = client

    async def online_among(self, user_ids: Sequence[UserId]) -> set[UserId]:
        online: set[UserId] = set()
        for start in range(0, len(user_ids), KEYS_PER_READ):
            chunk = user_ids[start : start + KEYS_PER_READ]
            with naming_failures():
                values = await self._client.mget([presence_key(user_id) for user_id in chunk])
            online |= {user_id for user_id, value in zip(chunk, values, strict=True) if value is not None}
        return online

    async def leave(self, user_ids: Collection[UserId]) -> set[UserId]:
        """Take users without connections offline; return them."""
        users = list(user_ids)
        with naming_failures():
            async with self._client.pipeline(transaction=False) as pipe:
                for user_id in users:
                    pipe.eval(_LEAVE, 2, user_key(user_id), presence_key(user_id))
                answers = await pipe.execute()
        return {user_id for user_id, has_left in zip(users, answers, strict=True) if has_left}
