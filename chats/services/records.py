"""Chats and their members, whoever asks: for staff only."""

from contextlib import suppress

from chats.domain import ChatState
from chats.errors import ChatNotFound
from chats.stores.chats import ChatStore
from chats.stores.counters import CounterStore
from chats.stores.memberships import MembershipPage, MembershipStore
from foundation.kernel.ids import ChatId, UserId, is_chat_id
from foundation.stores.dynamodb import Database
from foundation.stores.errors import TransactionCancelled


class ChatRecords:
    """Reads are strongly consistent."""

    def __init__(
        self, *, database: Database, chats: ChatStore, memberships: MembershipStore, counters: CounterStore
    ) -> None:
        self._database = database
        self._chats = chats
        self._memberships = memberships
        self._counters = counters

    def get(self, chat_id: ChatId) -> ChatState:
        """Raises `ChatNotFound`."""
        chat = self._chats.find(chat_id) if is_chat_id(chat_id) else None
        if chat is None:
            raise ChatNotFound
        return ChatState(chat, last_sequence=self._counters.find(chat_id) or 0)

    def list_members(self, chat_id: ChatId, *, limit: int, after: UserId | None = None) -> MembershipPage:
        """A page of a chat's members, ordered by user id."""
        return self._memberships.list_of_chat(chat_id, limit=limit, after=after)

    def end_membership(self, chat_id: ChatId, user_id: UserId) -> None:
        """End a membership that its holder cannot leave: of a direct chat, or of a group that holds nobody else."""
        ending = self._memberships.ending(chat_id, user_id)
        for counting in (self._counters.counting_lost_member, self._counters.counting_departure):
            with suppress(TransactionCancelled):  # it has ended already, or the chat is older than the count of members
                self._database.transact([ending, counting(chat_id)])
                return
