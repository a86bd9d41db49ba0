"""Who may enter a chat. Everyone else learns nothing, not even that it exists."""

from chats.domain import ChatAccess
from chats.errors import ChatNotFound, DirectChatIsFixed
from chats.stores.chats import ChatStore
from chats.stores.memberships import MembershipStore
from foundation.kernel.ids import ChatId, UserId, is_chat_id


class Access:
    """Decides on a strongly consistent read of the membership, with every request anew."""

    def __init__(self, *, chats: ChatStore, memberships: MembershipStore) -> None:
        self._chats = chats
        self._memberships = memberships

    def require_member(self, chat_id: ChatId, user_id: UserId) -> ChatAccess:
        """Raises `ChatNotFound` for a stranger, an unknown chat, and a group whose creation was not finished."""
        membership = self._memberships.find(chat_id, user_id) if is_chat_id(chat_id) else None
        chat = self._chats.find(chat_id) if membership is not None else None
        if chat is None or membership is None:
            raise ChatNotFound
        return ChatAccess(chat=chat, membership=membership)

    def require_in_group(self, chat_id: ChatId, user_id: UserId) -> ChatAccess:
        """For what direct chats do not have: a name and changing members. Raises `DirectChatIsFixed` too."""
        access = self.require_member(chat_id, user_id)
        if access.chat.is_direct:
            raise DirectChatIsFixed
        return access
