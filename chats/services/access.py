"""Access control of chats. Non-members do not learn whether a chat exists."""

from chats.domain import ChatAccess
from chats.errors import ChatNotFound, DirectChatIsFixed
from chats.stores.chats import ChatStore
from chats.stores.memberships import MembershipStore
from foundation.kernel.ids import ChatId, UserId, is_chat_id


class Access:
    """Reads the membership strongly consistent on every request."""

    def __init__(self, *, chats: ChatStore, memberships: MembershipStore) -> None:
        self._chats = chats
        self._memberships = memberships

    def require_member(self, chat_id: ChatId, user_id: UserId) -> ChatAccess:
        """Raises `ChatNotFound` if the user is not a member or the chat was not (completely) created."""
        membership = self._memberships.find(chat_id, user_id) if is_chat_id(chat_id) else None
        chat = self._chats.find(chat_id) if membership is not None else None
        if chat is None or membership is None:
            raise ChatNotFound
        return ChatAccess(chat=chat, membership=membership)

    def require_in_group(self, chat_id: ChatId, user_id: UserId) -> ChatAccess:
        """Raises `ChatNotFound`, and `DirectChatIsFixed` for a direct chat."""
        access = self.require_member(chat_id, user_id)
        if access.chat.is_direct:
            raise DirectChatIsFixed
        return access
