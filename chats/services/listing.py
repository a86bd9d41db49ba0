"""Lists a user's chats."""

from dataclasses import dataclass

from chats.domain import ChatState, ListedChat
from chats.stores.chats import ChatStore
from chats.stores.counters import GET_LATEST_SEQUENCES, CounterStore
from chats.stores.memberships import MembershipStore
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import Database


@dataclass(frozen=True, slots=True)
class ListingPage:
    """`after` is the position of the next page, or None. A page may hold fewer chats than the limit, even none."""

    chats: list[ListedChat]
    after: ChatId | None


class ChatListing:
    """Lists the chats of a user, newest first.

    The ids come from an eventually consistent index. One batch then reads the items, memberships and counters strongly
    consistent, and omits chats that the user has left and groups that were not completely created.
    """

    def __init__(
        self, *, database: Database, chats: ChatStore, memberships: MembershipStore, counters: CounterStore
    ) -> None:
        self._database = database
        self._chats = chats
        self._memberships = memberships
        self._counters = counters

    def list_chats(self, user_id: UserId, *, limit: int, after: ChatId | None) -> ListingPage:
        page = self._memberships.list_of_user(user_id, limit=limit, after=after)
        chat_ids = [membership.chat_id for membership in page.memberships]
        return ListingPage(
            chats=self._read(user_id, chat_ids) if chat_ids else [],
            after=chat_ids[-1] if page.more else None,
        )

    def _read(self, user_id: UserId, chat_ids: list[ChatId]) -> list[ListedChat]:
        pairs = [(chat_id, user_id) for chat_id in chat_ids]
        found = self._database.batch_get(
            {
                **self._memberships.lookup(pairs),
                **self._chats.lookup(chat_ids),
                GET_LATEST_SEQUENCES: [(chat_id,) for chat_id in chat_ids],
            }
        )
        memberships, chats = self._memberships.found_in(found), self._chats.found_in(found)
        sequences = self._counters.found_in(found)
        return [
            ListedChat(
                state=ChatState(chats[chat_id], last_sequence=sequences[chat_id]),
                membership=memberships[(chat_id, user_id)],
            )
            for chat_id in chat_ids
            if (chat_id, user_id) in memberships and chat_id in chats and chat_id in sequences
        ]
