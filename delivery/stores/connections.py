"""Routing state in Redis: who is connected where, and the members of chats. Disposable.

`connection:{id}`, `user_connections:{user}` and `gateway_connections:{gateway}` are written together, refreshed by the
gateway, and expire 60 s after that, `user_presence:{user}` after 30 s. `chat_members:{chat}` is a cache of DynamoDB for
five minutes.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
import redis
import redis.asyncio

from foundation.kernel.ids import ConnectionId, SessionId, UserId
from foundation.stores.errors import StoreUnavailable
from foundation.stores.redis.client import AWAY, PROBE_KEY, PROBE_TTL, away, naming_failures

log = logging.getLogger(__name__)

CONNECTION_TTL = 60
# Seconds: the gateway refreshes connections and presence every 20.
PRESENCE_TTL = 30
ONLINE = b'{"status":"online"}'
MEMBERS_TTL = 300
LOCAL_MEMBERS_TTL = 2.0
LOCAL_MEMBERS_CAPACITY = 10_000
PIPELINE_SIZE = 200
MEMBERS_READ_TIMEOUT = 0.5

ListMembers = Callable[[str], "Future[Sequence[UserId]]"]
"""Starts to read a chat's members from DynamoDB."""


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


def gateway_key(gateway_id: str) -> str:
    return f"gateway_connections:{gateway_id}"


def user_key(user_id: str) -> str:
    return f"user_connections:{user_id}"


def members_key(chat_id: str) -> str:
    return f"chat_members:{chat_id}"


def presence_key(user_id: str) -> str:
    return f"user_presence:{user_id}"


def deliver_channel(gateway_id: str) -> str:
    return f"gateway:{gateway_id}:deliver"


class ConnectionRegistry:
    """A gateway's connections. For the event loop. Raises `StoreUnavailable` when Redis is away."""

    def __init__(self, client: "redis.asyncio.Redis", *, gateway_id: str) -> None:
        self._client = client
        self._gateway_id = gateway_id
        self._gateway_key = gateway_key(gateway_id)

    async def register(self, registrations: Sequence[Registration]) -> None:
        """Register connections, or refresh them: both write everything, so a refresh repairs a wiped Redis."""
        for start in range(0, len(registrations), PIPELINE_SIZE):
            with naming_failures():
                async with self._client.pipeline(transaction=True) as pipe:
                    for registration in registrations[start : start + PIPELINE_SIZE]:
                        key = user_key(registration.user_id)
                        pipe.set(
                            f"connection:{registration.connection_id}", self._entry(registration), ex=CONNECTION_TTL
                        )
                        pipe.sadd(key, registration.connection_id)
                        pipe.expire(key, CONNECTION_TTL)
                        pipe.set(presence_key(registration.user_id), ONLINE, ex=PRESENCE_TTL)
                        pipe.sadd(self._gateway_key, registration.connection_id)
                    pipe.expire(self._gateway_key, CONNECTION_TTL)
                    await pipe.execute()

    async def unregister(self, registrations: Sequence[Registration]) -> set[UserId]:
        """Return the users that have no connection left, at any gateway."""
        left: dict[UserId, int] = {}
        for start in range(0, len(registrations), PIPELINE_SIZE):
            with naming_failures():
                async with self._client.pipeline(transaction=True) as pipe:
                    for registration in registrations[start : start + PIPELINE_SIZE]:
                        pipe.delete(f"connection:{registration.connection_id}")
                        pipe.srem(user_key(registration.user_id), registration.connection_id)
                        pipe.srem(self._gateway_key, registration.connection_id)
                        pipe.scard(user_key(registration.user_id))
                    answers = await pipe.execute()
            users = [registration.user_id for registration in registrations[start : start + PIPELINE_SIZE]]
            left |= zip(users, answers[3::4], strict=True)
        return {user_id for user_id, count in left.items() if not count}

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
    """The fanout's view: connections of users, and the gateways' channels. For threads. Raises `StoreUnavailable`."""

    def __init__(self, client: "redis.Redis") -> None:
        self._client = client

    def connections_of(self, groups: Sequence[Iterable[str]]) -> list[list[str]]:
        """The connections of each group of users, all in one round trip, a group in one command.

        The write before them fails on a replica: it would also take a `PUBLISH`, which gateways at the primary do not
        get.
        """
        with _pipeline(self._client) as pipe:
            pipe.expire(PROBE_KEY, PROBE_TTL)
            for users in groups:
                pipe.sunion(list(map(user_key, users)))
            _, *found_by_group = pipe.execute()
        return [[item.decode() for item in found] for found in found_by_group]

    def publish(self, payloads: dict[str, bytes]) -> set[str]:
        """Publish to each gateway in one round trip; return the gateways that did not listen."""
        with _pipeline(self._client) as pipe:
            for gateway_id, payload in payloads.items():
                pipe.publish(deliver_channel(gateway_id), payload)
            return {gateway_id for gateway_id, count in zip(payloads, pipe.execute(), strict=True) if not count}

    def forget(self, gateway_id: str, user_ids: Iterable[str]) -> None:
        """Remove the connections of a dead gateway from its users' sets, which other connections keep alive.

        A gateway is dead when its own entry has expired. One that only lost its subscription is left alone.
        """
        gateway, keys = gateway_key(gateway_id), [user_key(user) for user in user_ids]
        with _pipeline(self._client) as pipe:
            for key in keys:
                pipe.smembers(key)
            found = [[item.decode() for item in members] for members in pipe.execute()]
        dead = {
            key: [each for each in connections if gateway_of(each) == gateway_id]
            for key, connections in zip(keys, found, strict=True)
        }

        def remove(pipe: "redis.client.Pipeline") -> None:
            is_dead = not pipe.exists(gateway)
            pipe.multi()
            for key, connections in dead.items() if is_dead else ():
                if connections:
                    pipe.srem(key, *connections)

        with naming_failures():
            self._client.transaction(remove, gateway)


class MemberCache:
    """The members of chats, for fanout only: nothing is authorised by it. For one thread. Raises `StoreUnavailable`.

    Redis holds them for five minutes, filled from DynamoDB by `list_members`; `MembershipChanged` invalidates them. A
    local copy spares busy chats the look-up. It lives two seconds, because another worker may get that event.
    """

    def __init__(
        self,
        client: "redis.Redis",
        *,
        list_members: ListMembers,
        monotonic: Callable[[], float] = time.monotonic,
        read_timeout: float = MEMBERS_READ_TIMEOUT,
    ) -> None:
        self._client = client
        self._list_members = list_members
        self._monotonic = monotonic
        self._read_timeout = read_timeout
        self._local: OrderedDict[str, tuple[float, set[str]]] = OrderedDict()
        self._reads: dict[str, Future[Sequence[UserId]]] = {}

    def members_of(self, chat_ids: Iterable[str]) -> dict[str, set[str]]:
        """The members of chats, in one round trip where Redis has them, in none where there is a local copy.

        Those of other chats are read from DynamoDB, all at once. If a read fails or takes too long this raises, and
        the next call finds the chats that were read.
        """
        now, members, wanted = self._monotonic(), dict[str, set[str]](), list[str]()
        for chat in dict.fromkeys(chat_ids):
            until, known = self._local.get(chat, (now, set()))
            if until > now:
                members[chat] = known
            else:
                wanted.append(chat)
        if wanted:
            found = self._look_up(wanted)
            cold = [chat for chat in wanted if not found[chat]]
            failures = self._read(cold, found) if cold else []
            for chat in wanted:
                if chat in found:
                    self._keep_local(chat, found[chat], now + LOCAL_MEMBERS_TTL)
            if failures:
                raise failures[0]
            members |= found
        return members

    def invalidate(self, chat_ids: Iterable[str]) -> None:
        chats = list(dict.fromkeys(chat_ids))
        for chat in chats:
            self._local.pop(chat, None)
            self._reads.pop(chat, None)
        if chats:
            with naming_failures():
                self._client.delete(*map(members_key, chats))

    def forget_reads(self) -> None:
        """Drop the reads under way: other workers will ask for these chats."""
        self._reads.clear()

    def _look_up(self, chats: list[str]) -> dict[str, set[str]]:
        with _pipeline(self._client) as pipe:
            for chat in chats:
                pipe.smembers(members_key(chat))
            return {
                chat: {item.decode() for item in members} for chat, members in zip(chats, pipe.execute(), strict=True)
            }

    def _read(self, chats: Sequence[str], found: dict[str, set[str]]) -> list[Exception]:
        """Read chats from DynamoDB concurrently into `found`; return why some could not be read.

        A read that takes longer goes on, and a later call gets its result without waiting for it again: one slow chat
        does not hold up the others. Such a result may be older than an invalidation by another worker, so it is not
        written to Redis.
        """
        begun = {chat: self._list_members(chat) for chat in chats if chat not in self._reads}
        self._reads |= begun
        wait(begun.values(), timeout=self._read_timeout)
        fresh, failures = dict[str, set[str]](), list[Exception]()
        for chat in chats:
            del found[chat]
            if not self._reads[chat].done():
                failures.append(StoreUnavailable("The members of a chat are still being read"))
                continue
            try:
                found[chat] = set(self._reads.pop(chat).result())
            except Exception as error:  # noqa: BLE001 - raised by the caller, after the other chats are kept
                failures.append(error)
            else:
                fresh |= {chat: found[chat]} if chat in begun else {}
        self._fill(fresh)
        return failures

    def _keep_local(self, chat: str, members: set[str], until: float) -> None:
        self._local.pop(chat, None)
        self._local[chat] = (until, members)
        if len(self._local) > LOCAL_MEMBERS_CAPACITY:
            self._local.popitem(last=False)

    def _fill(self, members_by_chat: Mapping[str, set[str]]) -> None:
        """Write a cache, which may fail: a Redis that is full still routes."""
        try:
            with _pipeline(self._client, transaction=True) as pipe:
                for chat, members in members_by_chat.items():
                    if members:
                        pipe.sadd(members_key(chat), *members)
                        pipe.expire(members_key(chat), MEMBERS_TTL)
                pipe.execute()
        except StoreUnavailable as error:
            log.info("the members of %d chats are not cached: %s", len(members_by_chat), error.detail)


@contextmanager
def _pipeline(client: "redis.Redis", *, transaction: bool = False) -> Iterator[Any]:
    """Commands for one round trip. Raises `StoreUnavailable` if any of them fails."""
    try:
        with client.pipeline(transaction=transaction) as pipe:
            yield pipe
    except AWAY as error:
        raise away(error) from error
