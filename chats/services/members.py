"""Lists, adds and removes the members of groups, and changes their roles.

A change is checked on strongly consistent reads and written on condition that the membership has not changed since.
After a concurrent change, it is checked again on new reads. So a group always has exactly one owner. The caller's own
role is not part of the condition: a caller who loses a role during a request may still complete that request.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from accounts.services.directory import UserDirectory
from chats.domain import ChatAccess, Member, Membership, Role
from chats.errors import MemberNotFound, OwnerMustTransfer, RoleTooLow
from chats.events import Change
from chats.services.access import Access
from chats.services.event_publisher import EventPublisher
from chats.services.joining import Joining
from chats.services.leaving import Leaving
from chats.stores.memberships import MembershipStore
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.ids import ChatId, UserId, is_user_id
from foundation.kernel.retry import RetryPolicy
from foundation.stores.dynamodb import Database
from foundation.stores.errors import ConditionFailed, TransactionCancelled, TransactionConflict

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MemberPage:
    items: list[Member]
    next_cursor: str | None


class Members:
    """Every method raises `ChatNotFound` if the caller is not a member."""

    def __init__(
        self,
        *,
        database: Database,
        access: Access,
        memberships: MembershipStore,
        joining: Joining,
        leaving: Leaving,
        users: UserDirectory,
        events: EventPublisher,
        cursors: CursorCodec,
        retry: RetryPolicy | None = None,
    ) -> None:
        self._database = database
        self._access = access
        self._memberships = memberships
        self._joining = joining
        self._leaving = leaving
        self._users = users
        self._events = events
        self._cursors = cursors
        self._retry = retry or RetryPolicy()

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
        access = self._access.require_in_group(chat_id, caller_id)
        if not access.role.may_manage:
            raise RoleTooLow("Only the owner and admins add members")
        if role is not Role.MEMBER and access.role is not Role.OWNER:
            raise RoleTooLow("Only the owner appoints admins")
        member = self._joining.join(chat_id, user_id, role)
        self._events.memberships_changed(Change.ADDED, [member.membership], changed_by=caller_id)
        return member

    def remove(self, chat_id: ChatId, caller_id: UserId, user_id: UserId) -> None:
        """Remove a member; with the caller's own id, leave the group.

        Raises `RoleTooLow`, `MemberNotFound`, `OwnerMustTransfer`, `DirectChatIsFixed`.
        """
        removed = self._retry_on_conflict(lambda: self._remove(chat_id, caller_id, user_id))
        self._events.memberships_changed(Change.REMOVED, [removed], changed_by=caller_id)

    def change_role(self, chat_id: ChatId, caller_id: UserId, user_id: UserId, role: Role) -> Member:
        """Change a member's role. `owner` transfers the ownership, and the caller becomes an admin.

        Raises `RoleTooLow`, `MemberNotFound`, `OwnerMustTransfer`, `DirectChatIsFixed`.
        """
        membership, changed = self._retry_on_conflict(lambda: self._change_role(chat_id, caller_id, user_id, role))
        if changed:
            self._events.memberships_changed(Change.ROLE_CHANGED, changed, changed_by=caller_id)
        user = self._users.find_public_users([user_id]).get(user_id)
        return Member(membership, user.display_name if user else "")

    def _remove(self, chat_id: ChatId, caller_id: UserId, user_id: UserId) -> Membership:
        access = self._access.require_in_group(chat_id, caller_id)
        seen = access.membership if user_id == caller_id else self._get_removable(access, user_id)
        if seen.role is Role.OWNER:
            raise OwnerMustTransfer("The owner hands over the ownership before leaving")
        self._leaving.leave(seen)
        return seen

    def _get_removable(self, access: ChatAccess, user_id: UserId) -> Membership:
        if not access.role.may_manage:
            raise RoleTooLow("Only the owner and admins remove members")
        seen = self._get(access, user_id)
        if not access.role.may_remove(seen.role):
            raise RoleTooLow("Only the owner removes admins, and nobody removes the owner")
        return seen

    def _change_role(
        self, chat_id: ChatId, caller_id: UserId, user_id: UserId, role: Role
    ) -> tuple[Membership, list[Membership]]:
        """Return the membership after the change, and all memberships that changed."""
        access = self._access.require_in_group(chat_id, caller_id)
        if access.role is not Role.OWNER:
            raise RoleTooLow("Only the owner changes roles")
        seen = self._get(access, user_id)
        if seen.role is role:
            return seen, []
        if user_id == caller_id:
            raise OwnerMustTransfer("Make another member the owner instead")
        if role is Role.OWNER:
            return self._transfer_ownership(access.membership, seen)
        changed = self._memberships.change_role(seen, role)
        return changed, [changed]

    def _transfer_ownership(self, owner: Membership, member: Membership) -> tuple[Membership, list[Membership]]:
        """Change both roles in one transaction, each on condition of the role that was read."""
        self._database.transact(
            [
                self._memberships.changing_role(member, Role.OWNER),
                self._memberships.changing_role(owner, Role.ADMIN),
            ]
        )
        new_owner, former_owner = replace(member, role=Role.OWNER), replace(owner, role=Role.ADMIN)
        return new_owner, [new_owner, former_owner]

    def _get(self, access: ChatAccess, user_id: UserId) -> Membership:
        if user_id == access.membership.user_id:
            return access.membership
        found = self._memberships.find(access.chat.chat_id, user_id) if is_user_id(user_id) else None
        if found is None:
            raise MemberNotFound
        return found

    def _retry_on_conflict(self, change: Callable[[], T]) -> T:
        """Retry after a concurrent change. Raises `TransactionConflict` after the last attempt."""
        for _ in self._retry.tries():
            try:
                return change()
            except (ConditionFailed, TransactionCancelled):
                continue
        raise TransactionConflict("Others keep changing the members of this group")
