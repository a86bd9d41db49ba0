"""What can go wrong with chats, each failure named after the fact it states."""

from foundation.kernel.errors import Conflict, Forbidden, NotFound


class ChatNotFound(NotFound):
    """There is no such chat, or the caller is not a member of it: nobody outside learns which."""

    code = "chat_not_found"
    title = "There is no such chat"


class MemberNotFound(NotFound):
    """The caller is in the chat, and the user named in the request is not."""

    code = "member_not_found"
    title = "This user is not a member of the chat"


class RoleTooLow(Forbidden):
    """The caller is a member whose role does not allow this."""

    title = "Your role in this chat does not allow this"


class AlreadyAMember(Conflict):
    """The user to add is in the chat already."""

    code = "already_a_member"
    title = "This user is a member of the chat already"


class GroupFull(Conflict):
    """The group has as many members as a group may have."""

    code = "group_full"
    title = "The group is full"


class OwnerMustTransfer(Conflict):
    """The owner tried to leave or to lay down the role, which would leave the group without an owner."""

    code = "owner_must_transfer"
    title = "Hand over the ownership first"


class DirectChatIsFixed(Conflict):
    """A direct chat has its two members and no name, for good."""

    code = "direct_chat_is_fixed"
    title = "A direct chat cannot be changed"
