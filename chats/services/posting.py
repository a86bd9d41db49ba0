"""Membership checks and sequence counters, for reading and writing messages."""

from collections.abc import Iterable
from typing import Any

from chats.domain import Chat, CounterState, Membership
from chats.stores.chats import ChatStore
from chats.stores.counters import GET_LATEST_SEQUENCES, CounterStore
from chats.stores.memberships import MembershipStore
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import AccessPattern, BatchResult, Database, Key


class Posting:
    """The memberships and counters that messages depend on. All reads are strongly consistent.

    A chat exists if its counter exists. A membership alone is no proof, because the memberships of a large group are
    written before the group. So whoever reads or writes messages requires the counter too.
    """

    def __init__(self, *, database: Database, memberships: MembershipStore, counters: CounterStore) -> None:
        self._database = database
        self._memberships = memberships
        self._counters = counters
        self._chats = ChatStore(database)
        self.moving_counter = counters.moving

    def membership_lookup(self, pairs: Iterable[tuple[ChatId, UserId]]) -> dict[AccessPattern[Any], list[Key]]:
        """The keys of memberships, to merge into a `Database.batch_get` of the caller."""
        return {**self._memberships.lookup(pairs)}

    def members_among(self, result: BatchResult, pairs: Iterable[tuple[ChatId, UserId]]) -> set[tuple[ChatId, UserId]]:
        """The pairs that are members, from the result of that read."""
        return set(pairs) & self._memberships.pairs_in(result)

    def memberships_among(self, result: BatchResult) -> dict[tuple[ChatId, UserId], Membership]:
        """The memberships themselves, from the result of that read."""
        return self._memberships.found_in(result)

    def chat_lookup(self, chat_ids: Iterable[ChatId]) -> dict[AccessPattern[Any], list[Key]]:
        """The keys of chats, to merge into a `Database.batch_get` of the caller."""
        return {**self._chats.current_lookup(chat_ids)}

    def chats_among(self, result: BatchResult) -> dict[ChatId, Chat]:
        """The chats, from the result of that read."""
        return self._chats.current_in(result)

    def counter_lookup(self, chat_ids: Iterable[ChatId]) -> dict[AccessPattern[Any], list[Key]]:
        """The keys of counters, to merge into a `Database.batch_get` of the caller."""
        return {GET_LATEST_SEQUENCES: [(chat_id,) for chat_id in chat_ids]}

    def counters_among(self, result: BatchResult) -> dict[ChatId, int]:
        """The latest sequences, from the result of that read. A chat that is missing does not exist."""
        return self._counters.found_in(result)

    def counter_states_among(self, result: BatchResult) -> dict[ChatId, CounterState]:
        """The counters with their departures, from the result of that read."""
        return self._counters.states_in(result)

    async def list_member_ids(self, chat_id: str) -> list[UserId]:
        """The user ids of all members of a chat. On the service loop."""
        return await self._memberships.list_user_ids(ChatId(chat_id))
