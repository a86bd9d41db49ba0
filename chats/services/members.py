"""Lists, adds and removes the members of groups, and changes their roles.

A change is a command to the chat's log, which judges it on the chat as it is and stores it together with a notice. The
events follow once it is stored.
"""

from contextlib import suppress
from dataclasses import dataclass

from accounts.services.directory import UserDirectory
from chats.domain import Command, CommandType, Member, Membership, Role
from chats.errors import MemberNotFound, NothingToChange
from chats.services.access import Access
from chats.services.changes import require_may_add
from chats.services.chat_log import ChatLog, Notice
from chats.services.event_publisher import EventPublisher
from chats.stores.memberships import MembershipStore
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.errors import Invalid
from foundation.kernel.ids import ChatId, UserId


@dataclass(frozen=True, slots=True)
class MemberPage:
    items: list[Member]
    next_cursor: str | None


class Members:
    """Every method raises `ChatNotFound` if the caller is not a member."""

    def __init__(
        self,
        *,
        access: Access,
        memberships: MembershipStore,
        log: ChatLog,
        users: UserDirectory,
        events: EventPublisher,
        cursors: CursorCodec,
    ) -> None:
        self._access = access
        self._memberships = memberships
        self._log = log
        self._users = users
        self._events = events
        self._cursors = cursors

    def list_members(self, chat_id: ChatId, caller_id: UserId, *, limit: int, cursor: str | None) -> MemberPage:
        """A page of members, ordered by user id."""
        self._access.require_member(chat_id, caller_id)
        scope = f"members:{chat_id}"
        after = None
        if cursor is not None:
            after = UserId(str(self._cursors.decode(cursor, scope=scope, owner=caller_id)["after"]))
        page = self._memberships.list_of_chat(chat_id, limit=limit, after=after)
        users = self._users.find_public_users([membership.user_id for membership in page.memberships])
        items = [
            Member(membership, users[membership.user_id].display_name if membership.user_id in users else "")
            for membership in page.memberships
        ]
        if not page.more:
            return MemberPage(items, next_cursor=None)
        position = {"after": page.memberships[-1].user_id}
        return MemberPage(items, next_cursor=self._cursors.encode(position, scope=scope, owner=caller_id))

    def add(self, chat_id: ChatId, caller_id: UserId, user_id: UserId, role: Role) -> Member:
        """Raises `RoleTooLow`, `AlreadyAMember`, `GroupFull`, `DirectChatIsFixed`; `Invalid` for an unknown user."""
        require_may_add(self._access.require_in_group(chat_id, caller_id).role, role)
        user = self._users.find_public_users([user_id]).get(user_id)
        if user is None:
            raise Invalid("There is no such user", fields={"user_id": ["There is no such user."]})
        notice = self._commit(chat_id, caller_id, Command(CommandType.ADD, user_id, role))
        return Member(Membership(chat_id, user_id, role, notice.created_at), user.display_name)

    def remove(self, chat_id: ChatId, caller_id: UserId, user_id: UserId) -> None:
        """Remove a member; with the caller's own id, leave the group.

        Raises `RoleTooLow`, `MemberNotFound`, `OwnerMustTransfer`, `DirectChatIsFixed`.
        """
        self._commit(chat_id, caller_id, Command(CommandType.REMOVE, user_id))

    def change_role(self, chat_id: ChatId, caller_id: UserId, user_id: UserId, role: Role) -> Member:
        """Change a member's role. `owner` transfers the ownership, and the caller becomes an admin.

        Raises `RoleTooLow`, `MemberNotFound`, `OwnerMustTransfer`, `DirectChatIsFixed`.
        """
        with suppress(NothingToChange):
            self._commit(chat_id, caller_id, Command(CommandType.CHANGE_ROLE, user_id, role))
        membership = self._memberships.find(chat_id, user_id)
        if membership is None:
            raise MemberNotFound
        user = self._users.find_public_users([user_id]).get(user_id)
        return Member(membership, user.display_name if user else "")

    def _commit(self, chat_id: ChatId, caller_id: UserId, command: Command) -> Notice:
        notice = self._log.commit(chat_id, caller_id, command)
        self._events.memberships_changed(chat_id, notice, changed_by=caller_id)
        return notice
