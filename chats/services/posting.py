"""What `chats` contributes to reading and writing messages."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from chats.domain import Tally
from chats.errors import ChatNotFound
from chats.stores.counters import GET_LATEST_SEQUENCES, CounterStore
from chats.stores.memberships import MembershipStore
from foundation.kernel.ids import ChatId, UserId, is_chat_id
from foundation.stores.dynamodb import AccessPattern, Database, Key, Write
from foundation.stores.dynamodb.database import BatchResult


class Posting:
    """Who may post where, and the counter that numbers messages. All reads are strongly consistent.

    A membership alone proves nothing: a large group is born after its members. What proves that a chat exists is its
    counter, so a write that moves the counter, or a read through `require_reader`, never touches a half-born group.
    """

    def __init__(self, *, database: Database, memberships: MembershipStore, counters: CounterStore) -> None:
        self._database = database
        self._memberships = memberships
        self._counters = counters

    def membership_lookup(self, pairs: Iterable[tuple[ChatId, UserId]]) -> dict[AccessPattern[Any], list[Key]]:
        """The keys to merge into a caller's `Database.batch_get`, so that one request answers for a whole batch."""
        return {**self._memberships.lookup(pairs)}

    def members_among(self, result: BatchResult, pairs: Iterable[tuple[ChatId, UserId]]) -> set[tuple[ChatId, UserId]]:
        """Which of the pairs are members, according to a result of such a read."""
        return set(pairs) & self._memberships.pairs_in(result)

    def counter_lookup(self, chat_ids: Iterable[ChatId]) -> dict[AccessPattern[Any], list[Key]]:
        """The keys of counters, to merge into the same read."""
        return {GET_LATEST_SEQUENCES: [(chat_id,) for chat_id in chat_ids]}

    def counters_among(self, result: BatchResult) -> dict[ChatId, int]:
        """The latest sequences that such a read found; a chat that is not there does not exist."""
        return self._counters.found_in(result)

    def tallies_among(self, result: BatchResult) -> dict[ChatId, Tally]:
        """The same with how many have left."""
        return self._counters.tallies_in(result)

    def moving_counter(self, chat_id: ChatId, *, current: Tally, added: int, now: datetime) -> Write:
        """The counter's part of a message transaction.

        Its condition fails unless the counter stands at `current`, and nobody has left the chat since.
        """
        return self._counters.moving(chat_id, current=current, added=added, now=now)

    def find_counter(self, chat_id: ChatId) -> int | None:
        """A chat's latest sequence, or None when there is no such chat."""
        return self._counters.find(chat_id)

    def find_counters(self, chat_ids: Iterable[ChatId]) -> dict[ChatId, int]:
        """The latest sequences of the chats that exist."""
        return self._counters.find_many(chat_ids)

    def require_reader(self, chat_id: ChatId, user_id: UserId) -> int:
        """Return the latest sequence of a chat that the user may read, in one request. Raises `ChatNotFound`."""
        if not is_chat_id(chat_id):
            raise ChatNotFound
        pair = (chat_id, user_id)
        found = self._database.batch_get({**self.membership_lookup([pair]), **self.counter_lookup([chat_id])})
        latest = self.counters_among(found).get(chat_id)
        if latest is None or not self.members_among(found, [pair]):
            raise ChatNotFound
        return latest

    def list_member_ids(self, chat_id: str) -> list[str]:
        """Everyone in a chat, for those who deliver to them."""
        return [membership.user_id for membership in self._memberships.list_all(ChatId(chat_id))]
