"""Reading, renaming and muting a chat."""

from datetime import datetime

from chats.domain import Chat, ChatState, Membership
from chats.errors import ChatNotFound, RoleTooLow
from chats.services.access import Access
from chats.stores.chats import ChatStore
from chats.stores.counters import CounterStore
from chats.stores.memberships import MembershipStore
from foundation.kernel.clock import Clock
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.errors import ConditionFailed


class ChatDetails:
    """Every method raises `ChatNotFound` if the caller is not a member."""

    def __init__(
        self, *, access: Access, chats: ChatStore, memberships: MembershipStore, counters: CounterStore, clock: Clock
    ) -> None:
        self._access = access
        self._chats = chats
        self._memberships = memberships
        self._counters = counters
        self._clock = clock

    def get(self, chat_id: ChatId, caller_id: UserId) -> ChatState:
        return self._state(self._access.require_member(chat_id, caller_id).chat)

    def rename(self, chat_id: ChatId, caller_id: UserId, name: str) -> ChatState:
        """Raises `DirectChatIsFixed`, and `RoleTooLow` for plain members."""
        if not self._access.require_in_group(chat_id, caller_id).role.may_manage:
            raise RoleTooLow("Only the owner and admins rename a group")
        return self._state(self._chats.rename(chat_id, name, now=self._clock.now()))

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
