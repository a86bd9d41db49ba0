"""Who is connected where, in Redis: disposable, refreshed by heartbeats, gone 60 s after the last one.

`connection:{id}`, `user_connections:{user}` and `gateway_connections:{gateway}` are written together or not at all.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import orjson
import redis
import redis.asyncio

from foundation.kernel.ids import ConnectionId, SessionId, UserId
from foundation.stores.redis.client import ask_together, naming_failures

TTL = 60
BATCH = 200


@dataclass(frozen=True, slots=True)
class Registration:
    """What the registry says of a connection."""

    connection_id: ConnectionId
    user_id: UserId
    session_id: SessionId
    device_id: str
    connected_at: str


def gateway_of(connection_id: str) -> str:
    """A connection's id begins with its gateway's, so that routing needs no second look-up."""
    return connection_id.partition(".")[0]


def _gateway_key(gateway_id: str) -> str:
    return f"gateway_connections:{gateway_id}"


def _user_key(user_id: str) -> str:
    return f"user_connections:{user_id}"


def deliver_channel(gateway_id: str) -> str:
    return f"gateway:{gateway_id}:deliver"


class ConnectionRegistry:
    """A gateway's side. For the event loop. Raises `StoreUnavailable` when Redis is away."""

    def __init__(self, client: "redis.asyncio.Redis", *, gateway_id: str) -> None:
        self._client = client
        self._gateway_id = gateway_id
        self._gateway_key = _gateway_key(gateway_id)

    async def register(self, registrations: Sequence[Registration]) -> None:
        """Enter connections, or refresh them: the same, so that a heartbeat also repairs a wiped Redis."""
        for start in range(0, len(registrations), BATCH):
            with naming_failures():
                async with self._client.pipeline(transaction=True) as pipe:
                    for registration in registrations[start : start + BATCH]:
                        user_key = _user_key(registration.user_id)
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
                        pipe.srem(_user_key(registration.user_id), registration.connection_id)
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
                "device_id": registration.device_id,
                "gateway_id": self._gateway_id,
                "connected_at": registration.connected_at,
            }
        )


class Routes:
    """The fanout's side. For threads. Raises `StoreUnavailable` when Redis is away."""

    def __init__(self, client: "redis.Redis") -> None:
        self._client = client

    def connections_of(self, groups: Sequence[Iterable[str]]) -> list[list[str]]:
        """The connections of each group of users, all in one round trip, a group in one command."""
        with naming_failures():
            asked = [("SUNION", *map(_user_key, users)) for users in groups]
            return [[item.decode() for item in found] for found in ask_together(self._client, asked)]

    def publish(self, payloads: dict[str, bytes]) -> set[str]:
        """Hand each gateway its deliveries, in one round trip; return the gateways that did not listen."""
        with naming_failures():
            asked = [("PUBLISH", deliver_channel(gateway_id), payload) for gateway_id, payload in payloads.items()]
            listeners = ask_together(self._client, asked)
        return {gateway_id for gateway_id, count in zip(payloads, listeners, strict=True) if not count}

    def forget(self, gateway_id: str, user_ids: Iterable[str]) -> None:
        """Take a gateway that is gone out of its users' sets, which their living connections keep from expiring.

        Gone is one whose own entry has expired. One that has just lost its subscription is left alone: its entry is
        written together with its users', so while that is missing they have nothing to lose.
        """
        gateway_key, keys = _gateway_key(gateway_id), [_user_key(user) for user in user_ids]
        with naming_failures():
            pipe = self._client.pipeline(transaction=False)
            for key in keys:
                pipe.smembers(key)
            found = [[item.decode() for item in members] for members in pipe.execute()]
        dead = {
            key: [each for each in connections if gateway_of(each) == gateway_id]
            for key, connections in zip(keys, found, strict=True)
        }

        def remove(pipe: "redis.client.Pipeline") -> None:
            gone = not pipe.exists(gateway_key)
            pipe.multi()
            for key, connections in dead.items() if gone else ():
                if connections:
                    pipe.srem(key, *connections)

        with naming_failures():
            self._client.transaction(remove, gateway_key)
