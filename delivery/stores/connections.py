"""Who is connected where, in Redis: disposable, refreshed by heartbeats, gone 60 s after the last one.

`connection:{id}`, `user_connections:{user}` and `gateway_connections:{gateway}` are written together or not at all.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import orjson
import redis
import redis.asyncio

from config.kernel.ids import ConnectionId, SessionId, UserId
from config.stores.redis import naming_failures

TTL = 60
BATCH = 200


@dataclass(frozen=True, slots=True)
class Registration:
    """What the registry says of a connection."""

    connection_id: ConnectionId
    user_id: UserId
    session_id: SessionId
    connected_at: str


def gateway_of(connection_id: str) -> str:
    """A connection's id begins with its gateway's, so that routing needs no second look-up."""
    return connection_id.partition(".")[0]


def deliver_channel(gateway_id: str) -> str:
    return f"gateway:{gateway_id}:deliver"


class ConnectionRegistry:
    """A gateway's side. For the event loop. Raises `StoreUnavailable` when Redis is away."""

    def __init__(self, client: "redis.asyncio.Redis", *, gateway_id: str) -> None:
        self._client = client
        self._gateway_id = gateway_id
        self._gateway_key = f"gateway_connections:{gateway_id}"

    async def register(self, registrations: Sequence[Registration]) -> None:
        """Enter connections, or refresh them: the same, so that a heartbeat also repairs a wiped Redis."""
        for start in range(0, len(registrations), BATCH):
            with naming_failures():
                async with self._client.pipeline(transaction=True) as pipe:
                    for registration in registrations[start : start + BATCH]:
                        user_key = f"user_connections:{registration.user_id}"
                        pipe.set(f"connection:{registration.connection_id}", self._entry(registration), ex=TTL)
                        pipe.sadd(user_key, registration.connection_id)
                        pipe.expire(user_key, TTL)
                        pipe.sadd(self._gateway_key, registration.connection_id)
                    pipe.expire(self._gateway_key, TTL)
                    await pipe.execute()

    async def unregister(self, registrations: Sequence[Registration]) -> None:
        for start in range(0, len(registrations), BATCH):
            with naming_failures():
                async with self._client.pipeline(transaction=True) as pipe:
                    for registration in registrations[start : start + BATCH]:
                        pipe.delete(f"connection:{registration.connection_id}")
                        pipe.srem(f"user_connections:{registration.user_id}", registration.connection_id)
                        pipe.srem(self._gateway_key, registration.connection_id)
                    await pipe.execute()

    async def count(self) -> int:
        """How many connections of this gateway Redis knows."""
        with naming_failures():
            return int(await self._client.scard(self._gateway_key))

    def _entry(self, registration: Registration) -> bytes:
        return orjson.dumps(
            {
                "user_id": registration.user_id,
                "session_id": registration.session_id,
                "gateway_id": self._gateway_id,
                "connected_at": registration.connected_at,
            }
        )


class Routes:
    """The fanout's side. For threads. Raises `StoreUnavailable` when Redis is away."""

    def __init__(self, client: "redis.Redis") -> None:
        self._client = client

    def connections_of(self, user_ids: Iterable[str]) -> dict[str, list[str]]:
        """The connections of users, in one round trip; who has none is absent."""
        users = list(dict.fromkeys(user_ids))
        with naming_failures():
            pipe = self._client.pipeline(transaction=False)
            for user in users:
                pipe.smembers(f"user_connections:{user}")
            found = pipe.execute()
        return {
            user: [item.decode() for item in members] for user, members in zip(users, found, strict=True) if members
        }

    def publish(self, payloads: dict[str, bytes]) -> None:
        """Hand each gateway its deliveries, in one round trip."""
        with naming_failures():
            pipe = self._client.pipeline(transaction=False)
            for gateway_id, payload in payloads.items():
                pipe.publish(deliver_channel(gateway_id), payload)
            pipe.execute()
