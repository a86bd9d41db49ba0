"""The errors of chats, with their stable codes. The docstrings appear in the OpenAPI document."""

from foundation.kernel.errors import Conflict, Forbidden, NotFound


class ChatNotFound(NotFound):
    """The chat does not exist, or the caller is not a member. The response does not reveal which."""

    code = "chat_not_found"
    title = "There is no such chat"


class MemberNotFound(NotFound):
    """The user in the request is not a member of the chat."""

    code = "member_not_found"
    title = "This user is not a member of the chat"


class RoleTooLow(Forbidden):
    """The caller's role does not allow this."""

    title = "Your role in this chat does not allow this"


class AlreadyAMember(Conflict):
    """The user to add is already a member of the chat."""

    code = "already_a_member"
    title = "This user is a member of the chat already"


class GroupFull(Conflict):
    """The group has the maximum number of members."""

    code = "group_full"
    title = "The group is full"


class OwnerMustTransfer(Conflict):
    """The owner cannot leave or give up the role without transferring the ownership."""

    code = "owner_must_transfer"
    title = "Hand over the ownership first"


class NothingToChange(Conflict):
    """The command finds the chat as it would leave it. No entry was made."""

    code = "nothing_to_change"
    title = "There is nothing to change"


class DirectChatIsFixed(Conflict):
    """The members of a direct chat cannot change, and it has no name."""

    code = "direct_chat_is_fixed"
    title = "A direct chat cannot be changed"
