"""Reading, renaming and muting a chat."""

from dataclasses import replace
from datetime import datetime

from chats.domain import Chat, ChatState, Command, CommandType, Membership
from chats.errors import ChatNotFound
from chats.services.access import Access
from chats.services.chat_log import ChatLog
from chats.stores.counters import CounterStore
from chats.stores.memberships import MembershipStore
from foundation.kernel.clock import Clock
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.errors import ConditionFailed


class ChatDetails:
    """Every method raises `ChatNotFound` if the caller is not a member."""

    def __init__(
        self, *, access: Access, memberships: MembershipStore, counters: CounterStore, log: ChatLog, clock: Clock
    ) -> None:
        self._access = access
        self._log = log
        self._memberships = memberships
        self._counters = counters
        self._clock = clock

    def get(self, chat_id: ChatId, caller_id: UserId) -> ChatState:
        return self._state(self._access.require_member(chat_id, caller_id).chat)

    def rename(self, chat_id: ChatId, caller_id: UserId, name: str) -> ChatState:
        """Raises `DirectChatIsFixed`, and `RoleTooLow` for plain members."""
        chat = self._access.require_in_group(chat_id, caller_id).chat
        notice = self._log.commit(chat_id, caller_id, Command(CommandType.RENAME, name=name))
        return ChatState(replace(chat, name=name, updated_at=notice.created_at), last_sequence=notice.sequence)

    def mute(self, chat_id: ChatId, caller_id: UserId, until: datetime | None) -> Membership:
        """Mute the chat for the caller until the given time. None or a past time unmutes it."""
        self._access.require_member(chat_id, caller_id)
        future = until if until is not None and until > self._clock.now() else None
        try:
            return self._memberships.mute(chat_id, caller_id, future)
        except ConditionFailed as error:
            raise ChatNotFound from error

    def _state(self, chat: Chat) -> ChatState:
        return ChatState(chat, last_sequence=self._counters.find(chat.chat_id) or 0)
