"""Who is in a chat, for fanout only: a set in Redis for five minutes, filled from DynamoDB alone.

Stale by at most the time a `MembershipChanged` event takes to arrive; nothing is ever authorised by it.
"""

from collections.abc import Callable, Iterable

import redis

from config.stores.redis import naming_failures

TTL = 300

ListMembers = Callable[[str], Iterable[str]]


class MemberCache:
    """For threads. `list_members` reads the authority, strongly. Raises `StoreUnavailable`."""

    def __init__(self, client: "redis.Redis", *, list_members: ListMembers) -> None:
        self._client = client
        self._list_members = list_members

    def members_of(self, chat_ids: Iterable[str]) -> dict[str, set[str]]:
        """The members of chats, in one round trip where they are cached."""
        chats = list(dict.fromkeys(chat_ids))
        with naming_failures():
            pipe = self._client.pipeline(transaction=False)
            for chat in chats:
                pipe.smembers(_key(chat))
            found = pipe.execute()
        cached = {chat: {item.decode() for item in members} for chat, members in zip(chats, found, strict=True)}
        missing = {chat: set(self._list_members(chat)) for chat, members in cached.items() if not members}
        self._fill(missing)
        return {**cached, **missing}

    def invalidate(self, chat_ids: Iterable[str]) -> None:
        keys = [_key(chat) for chat in dict.fromkeys(chat_ids)]
        if keys:
            with naming_failures():
                self._client.delete(*keys)

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
