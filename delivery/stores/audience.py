"""The audience of live frames: the connections of the members of small chats, and the gateways' channels.

Reads the fanout's cache `chat_members:{chat}`, and DynamoDB where that has nothing. Does not write that cache: a read
that began before a removal and ended after it would bring the removed member back for everybody. Decides no right.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence

import redis.asyncio

from delivery.stores.connections import MEMBERS_TTL, deliver_channel, members_key, user_key
from foundation.kernel.errors import Unavailable
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.redis.client import PROBE_KEY, PROBE_TTL, naming_failures

log = logging.getLogger(__name__)

MAX_LIVE_MEMBERS = 100
LARGE_CAPACITY = 10_000
CONCURRENT_READS = 8
LOCAL_TTL = 2.0
"""Seconds for which members that were read from DynamoDB are kept here."""
LOCAL_CAPACITY = 10_000
_UNKNOWN, _LARGE = 0, 1

# For each chat: 0 if its members are not cached, 1 if there are too many, else the members' connections, without those
# of the user named beside it.
_CONNECTIONS = """
local found = {}
for i, key in ipairs(KEYS) do
  local size = redis.call('SCARD', key)
  if size == 0 then
    found[i] = 0
  elseif size > tonumber(ARGV[1]) then
    found[i] = 1
  else
    local users = {}
    for _, user in ipairs(redis.call('SMEMBERS', key)) do
      if user ~= ARGV[i + 1] then users[#users + 1] = 'user_connections:' .. user end
    end
    found[i] = #users > 0 and redis.call('SUNION', unpack(users)) or {}
  end
end
return found
"""

ListMembers = Callable[[ChatId], Awaitable[Sequence[UserId]]]
Addressee = tuple[ChatId, UserId | None]
"""The members of a chat, without a user."""


class Audience:
    """For the event loop. Raises `StoreUnavailable` when Redis is away."""

    def __init__(
        self,
        client: "redis.asyncio.Redis",
        *,
        list_members: ListMembers,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._script = client.register_script(_CONNECTIONS)
        self._list_members = list_members
        self._monotonic = monotonic
        self._reading = asyncio.Semaphore(CONCURRENT_READS)
        self._local: OrderedDict[ChatId, tuple[float, Sequence[UserId]]] = OrderedDict()
        # Chats that have more than `MAX_LIVE_MEMBERS`, and until when that is taken for granted.
        self._large: OrderedDict[ChatId, float] = OrderedDict()

    async def connections_of(self, addressees: Sequence[Addressee]) -> list[list[str] | None]:
        """The connections of each addressee, none for a chat of more than `MAX_LIVE_MEMBERS` members.

        None instead of a list where the members cannot be read now.
        """
        now = self._monotonic()
        asked = [addressee for addressee in dict.fromkeys(addressees) if self._large.get(addressee[0], now) <= now]
        found = dict(zip(asked, await self._look_up(asked), strict=True)) if asked else {}
        unknown = [addressee for addressee, answer in found.items() if answer == _UNKNOWN]
        if unknown:
            found |= await self._look_up_uncached(unknown)
        for (chat_id, _), answer in found.items():
            if answer == _LARGE:
                self._remember_large(chat_id, now + MEMBERS_TTL)
        return [_ids(found.get(addressee, _LARGE)) for addressee in addressees]

    async def publish(self, payloads: Mapping[str, bytes]) -> None:
        """Publish to each gateway in one round trip.

        The write before it fails on a replica, which would publish to nobody; the client then connects anew.
        """
        with naming_failures():
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.expire(PROBE_KEY, PROBE_TTL)
                for gateway_id, payload in payloads.items():
                    pipe.publish(deliver_channel(gateway_id), payload)
                await pipe.execute()

    async def _look_up(self, addressees: Sequence[Addressee]) -> list[int | list[bytes]]:
        keys = [members_key(chat_id) for chat_id, _ in addressees]
        with naming_failures():
            found: list[int | list[bytes]] = await self._script(
                keys=keys, args=[MAX_LIVE_MEMBERS, *(user_id or "" for _, user_id in addressees)]
            )
        return found

    async def _look_up_uncached(self, addressees: Sequence[Addressee]) -> dict[Addressee, int | list[bytes]]:
        """For chats that Redis does not know: their members are read from DynamoDB. Unknown if that fails."""
        chats = list(dict.fromkeys(chat_id for chat_id, _ in addressees))
        members = dict(zip(chats, await asyncio.gather(*map(self._find_members, chats)), strict=True))
        found: dict[Addressee, int | list[bytes]] = {}
        asked: dict[Addressee, list[str]] = {}
        for chat_id, user_id in addressees:
            known = members[chat_id]
            if known is None:
                found[chat_id, user_id] = _UNKNOWN
            elif len(known) > MAX_LIVE_MEMBERS:
                found[chat_id, user_id] = _LARGE
            elif keys := [user_key(member) for member in known if member != user_id]:
                asked[chat_id, user_id] = keys
            else:
                found[chat_id, user_id] = []
        with naming_failures():
            async with self._client.pipeline(transaction=False) as pipe:
                for keys in asked.values():
                    pipe.sunion(keys)
                return found | dict(zip(asked, await pipe.execute(), strict=True))

    async def _find_members(self, chat_id: ChatId) -> Sequence[UserId] | None:
        """None if they cannot be read: one chat does not keep the others from their connections."""
        try:
            return await self._read_members(chat_id)
        except Unavailable as error:
            log.info("the members of a chat are not read: %s", error.detail)
        except Exception:
            log.exception("the members of a chat are not read")
        return None

    async def _read_members(self, chat_id: ChatId) -> Sequence[UserId]:
        until, members = self._local.get(chat_id, (0.0, ()))
        if until > self._monotonic():
            return members
        async with self._reading:
            members = await self._list_members(chat_id)
        self._local.pop(chat_id, None)
        self._local[chat_id] = (self._monotonic() + LOCAL_TTL, members)
        if len(self._local) > LOCAL_CAPACITY:
            self._local.popitem(last=False)
        return members

    def _remember_large(self, chat_id: ChatId, until: float) -> None:
        self._large.pop(chat_id, None)
        self._large[chat_id] = until
        if len(self._large) > LARGE_CAPACITY:
            self._large.popitem(last=False)


def _ids(answer: int | list[bytes]) -> list[str] | None:
    if isinstance(answer, int):
        return None if answer == _UNKNOWN else []
    return [item.decode() for item in answer]
