"""Lists a user's chats."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chats.domain import ChatState, ListedChat
from chats.stores.chats import ChatStore
from chats.stores.counters import GET_LATEST_SEQUENCES, CounterStore
from chats.stores.memberships import MembershipStore
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import AccessPattern, BatchResult, Key


@dataclass(frozen=True, slots=True)
class ChatIdPage:
    """`after` is the position of the next page, or None."""

    chat_ids: list[ChatId]
    after: ChatId | None


class ChatListing:
    """Lists the chats of a user, newest first.

    The ids come from an eventually consistent index. A batch read of the caller then finds memberships and counters
    strongly consistent, which omits chats that the user has left and groups that were not completely created.
    """

    def __init__(self, *, chats: ChatStore, memberships: MembershipStore, counters: CounterStore) -> None:
        self._chats = chats
        self._memberships = memberships
        self._counters = counters

    async def list_chat_ids(self, user_id: UserId, *, limit: int, after: ChatId | None) -> ChatIdPage:
        chat_ids, more = await self._memberships.list_chat_ids(user_id, limit=limit, after=after)
        return ChatIdPage(chat_ids, after=chat_ids[-1] if more else None)

    def lookup(self, user_id: UserId, chat_ids: Sequence[ChatId]) -> dict[AccessPattern[Any], list[Key]]:
        """The keys to merge into a `batch_get` of the caller."""
        return {
            **self._memberships.lookup((chat_id, user_id) for chat_id in chat_ids),
            **self._chats.lookup(chat_ids),
            GET_LATEST_SEQUENCES: [(chat_id,) for chat_id in chat_ids],
        }

    def found_in(self, result: BatchResult, user_id: UserId, chat_ids: Sequence[ChatId]) -> dict[ChatId, ListedChat]:
        """Those of the chats that the user is a member of, in the same order, from the result of that read."""
        memberships, chats = self._memberships.found_in(result), self._chats.found_in(result)
        counters = self._counters.states_in(result)
        return {
            chat_id: ListedChat(
                state=ChatState(chats[chat_id], last_sequence=counters[chat_id].sequence),
                membership=memberships[(chat_id, user_id)],
                counter=counters[chat_id],
            )
            for chat_id in chat_ids
            if (chat_id, user_id) in memberships and chat_id in chats and chat_id in counters
        }
