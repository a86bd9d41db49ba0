"""Who is in a chat, for fanout only: a set in Redis for five minutes, filled from DynamoDB alone.

Stale by at most the time a `MembershipChanged` event takes to arrive; nothing is ever authorised by it. A copy at hand
spares a busy chat the look-up: it goes with the same event, and for workers that do not get that event in two seconds.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

import redis

from foundation.stores.redis.client import naming_failures

TTL = 300
AT_HAND = 2.0
CHATS_AT_HAND = 10_000

ListMembers = Callable[[str], Iterable[str]]


class MemberCache:
    """For one thread. `list_members` reads the authority, strongly. Raises `StoreUnavailable`."""

    def __init__(
        self, client: "redis.Redis", *, list_members: ListMembers, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._list_members = list_members
        self._monotonic = monotonic
        self._at_hand: OrderedDict[str, tuple[float, set[str]]] = OrderedDict()

    def members_of(self, chat_ids: Iterable[str]) -> dict[str, set[str]]:
        """The members of chats, in one round trip where they are cached, in none where they are at hand."""
        now, members, wanted = self._monotonic(), dict[str, set[str]](), list[str]()
        for chat in dict.fromkeys(chat_ids):
            until, known = self._at_hand.get(chat, (now, set()))
            if until > now:
                members[chat] = known
            else:
                wanted.append(chat)
        for chat, found in self._look_up(wanted).items() if wanted else ():
            members[chat] = found
            self._keep_at_hand(chat, found, now + AT_HAND)
        return members

    def invalidate(self, chat_ids: Iterable[str]) -> None:
        chats = list(dict.fromkeys(chat_ids))
        for chat in chats:
            self._at_hand.pop(chat, None)
        if chats:
            with naming_failures():
                self._client.delete(*map(_key, chats))

    def _look_up(self, chats: list[str]) -> dict[str, set[str]]:
        with naming_failures():
            pipe = self._client.pipeline(transaction=False)
            for chat in chats:
                pipe.smembers(_key(chat))
            found = pipe.execute()
        cached = {chat: {item.decode() for item in members} for chat, members in zip(chats, found, strict=True)}
        missing = {chat: set(self._list_members(chat)) for chat, members in cached.items() if not members}
        if missing:
            self._fill(missing)
        return {**cached, **missing}

    def _keep_at_hand(self, chat: str, members: set[str], until: float) -> None:
        self._at_hand.pop(chat, None)
        self._at_hand[chat] = (until, members)
        if len(self._at_hand) > CHATS_AT_HAND:
            self._at_hand.popitem(last=False)

    def _fill(self, members_by_chat: dict[str, set[str]]) -> None:
        with naming_failures():
            pipe = self._client.pipeline(transaction=True)
            for chat, members in members_by_chat.items():
                if members:
                    pipe.sadd(_key(chat), *members)
                    pipe.expire(_key(chat), TTL)
            pipe.execute()


def _key(chat_id: str) -> str:
    return f"chat_members:{chat_id}"
