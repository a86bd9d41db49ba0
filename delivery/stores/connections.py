"""Routing state in Redis: who is connected where, and the members of chats. Disposable.

`connection:{id}`, `user_connections:{user}` and `gateway_connections:{gateway}` are written together, refreshed by the
gateway, and expire 60 s after that. `chat_members:{chat}` is a cache of DynamoDB for five minutes.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import orjson
import redis
import redis.asyncio

from foundation.kernel.ids import ConnectionId, SessionId, UserId
from foundation.stores.redis.client import naming_failures

CONNECTION_TTL = 60
MEMBERS_TTL = 300
LOCAL_MEMBERS_TTL = 2.0
LOCAL_MEMBERS_CAPACITY = 10_000
PIPELINE_SIZE = 200

ListMembers = Callable[[str], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Registration:
    """A connection as the registry describes it."""

    connection_id: ConnectionId
    user_id: UserId
    session_id: SessionId
    device_id: str
    connected_at: str


def gateway_of(connection_id: str) -> str:
    """A connection's id begins with its gateway's, so routing needs no second look-up."""
    return connection_id.partition(".")[0]


def _gateway_key(gateway_id: str) -> str:
    return f"gateway_connections:{gateway_id}"


def _user_key(user_id: str) -> str:
    return f"user_connections:{user_id}"


def _members_key(chat_id: str) -> str:
    return f"chat_members:{chat_id}"


def deliver_channel(gateway_id: str) -> str:
    return f"gateway:{gateway_id}:deliver"


class ConnectionRegistry:
    """A gateway's connections. For the event loop. Raises `StoreUnavailable` when Redis is away."""

    def __init__(self, client: "redis.asyncio.Redis", *, gateway_id: str) -> None:
        self._client = client
        self._gateway_id = gateway_id
        self._gateway_key = _gateway_key(gateway_id)

    async def register(self, registrations: Sequence[Registration]) -> None:
        """Register connections, or refresh them: both write everything, so a refresh repairs a wiped Redis."""
        for start in range(0, len(registrations), PIPELINE_SIZE):
            with naming_failures():
                async with self._client.pipeline(transaction=True) as pipe:
                    for registration in registrations[start : start + PIPELINE_SIZE]:
                        user_key = _user_key(registration.user_id)
                        pipe.set(
                            f"connection:{registration.connection_id}", self._entry(registration), ex=CONNECTION_TTL
                        )
                        pipe.sadd(user_key, registration.connection_id)
                        pipe.expire(user_key, CONNECTION_TTL)
                        pipe.sadd(self._gateway_key, registration.connection_id)
                    pipe.expire(self._gateway_key, CONNECTION_TTL)
                    await pipe.execute()

    async def unregister(self, registrations: Sequence[Registration]) -> None:
        for start in range(0, len(registrations), PIPELINE_SIZE):
            with naming_failures():
                async with self._client.pipeline(transaction=True) as pipe:
                    for registration in registrations[start : start + PIPELINE_SIZE]:
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
    """The fanout's view: connections of users, and the gateways' channels. For threads. Raises `RedisError`."""

    def __init__(self, client: "redis.Redis") -> None:
        self._client = client

    def connections_of(self, groups: Sequence[Iterable[str]]) -> list[list[str]]:
        """The connections of each group of users, all in one round trip, a group in one command."""
        pipe = self._client.pipeline(transaction=False)
        for users in groups:
            pipe.sunion(list(map(_user_key, users)))
        return [[item.decode() for item in found] for found in pipe.execute()]

    def publish(self, payloads: dict[str, bytes]) -> set[str]:
        """Publish to each gateway in one round trip; return the gateways that did not listen."""
        pipe = self._client.pipeline(transaction=False)
        for gateway_id, payload in payloads.items():
            pipe.publish(deliver_channel(gateway_id), payload)
        return {gateway_id for gateway_id, count in zip(payloads, pipe.execute(), strict=True) if not count}

    def forget(self, gateway_id: str, user_ids: Iterable[str]) -> None:
        """Remove the connections of a dead gateway from its users' sets, which other connections keep alive.

        A gateway is dead when its own entry has expired. One that only lost its subscription is left alone.
        """
        gateway_key, keys = _gateway_key(gateway_id), [_user_key(user) for user in user_ids]
        pipe = self._client.pipeline(transaction=False)
        for key in keys:
            pipe.smembers(key)
        found = [[item.decode() for item in members] for members in pipe.execute()]
        dead = {
            key: [each for each in connections if gateway_of(each) == gateway_id]
            for key, connections in zip(keys, found, strict=True)
        }

        def remove(pipe: "redis.client.Pipeline") -> None:
            is_dead = not pipe.exists(gateway_key)
            pipe.multi()
            for key, connections in dead.items() if is_dead else ():
                if connections:
                    pipe.srem(key, *connections)

        self._client.transaction(remove, gateway_key)


class MemberCache:
    """The members of chats, for fanout only: nothing is authorised by it. For one thread. Raises `RedisError`.

    Redis holds them for five minutes, filled from DynamoDB by `list_members`; `MembershipChanged` invalidates them. A
    local copy spares busy chats the look-up. It lives two seconds, because another worker may get that event.
    """

    def __init__(
        self, client: "redis.Redis", *, list_members: ListMembers, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._list_members = list_members
        self._monotonic = monotonic
        self._local: OrderedDict[str, tuple[float, set[str]]] = OrderedDict()

    def members_of(self, chat_ids: Iterable[str]) -> dict[str, set[str]]:
        """The members of chats, in one round trip where Redis has them, in none where there is a local copy."""
        now, members, wanted = self._monotonic(), dict[str, set[str]](), list[str]()
        for chat in dict.fromkeys(chat_ids):
            until, known = self._local.get(chat, (now, set()))
            if until > now:
                members[chat] = known
            else:
                wanted.append(chat)
        for chat, found in self._look_up(wanted).items() if wanted else ():
            members[chat] = found
            self._keep_local(chat, found, now + LOCAL_MEMBERS_TTL)
        return members

    def invalidate(self, chat_ids: Iterable[str]) -> None:
        chats = list(dict.fromkeys(chat_ids))
        for chat in chats:
            self._local.pop(chat, None)
        if chats:
            self._client.delete(*map(_members_key, chats))

    def _look_up(self, chats: list[str]) -> dict[str, set[str]]:
        pipe = self._client.pipeline(transaction=False)
        for chat in chats:
            pipe.smembers(_members_key(chat))
        cached = {
            chat: {item.decode() for item in members} for chat, members in zip(chats, pipe.execute(), strict=True)
        }
        missing = {chat: set(self._list_members(chat)) for chat, members in cached.items() if not members}
        if missing:
            self._fill(missing)
        return {**cached, **missing}

    def _keep_local(self, chat: str, members: set[str], until: float) -> None:
        self._local.pop(chat, None)
        self._local[chat] = (until, members)
        if len(self._local) > LOCAL_MEMBERS_CAPACITY:
            self._local.popitem(last=False)

    def _fill(self, members_by_chat: dict[str, set[str]]) -> None:
        pipe = self._client.pipeline(transaction=True)
        for chat, members in members_by_chat.items():
            if members:
                pipe.sadd(_members_key(chat), *members)
                pipe.expire(_members_key(chat), MEMBERS_TTL)
        pipe.execute()
