"""How a user gets into a group that exists, and how a group stays within its limit (ADR-012).

There is no counter of members: it would be one more item that every join fights for. The members are counted instead,
strongly, before the join and, near the limit, once more after it; who finds the group over its limit steps back. So
joins that meet at the last place may all be refused, and a group over its limit does not stay so.
"""

from accounts.services.directory import UserDirectory
from chats.domain import MAX_MEMBERS, Member, Membership, Role
from chats.errors import AlreadyAMember, GroupFull
from chats.services.leaving import Leaving
from chats.stores.memberships import MembershipStore
from foundation.kernel.clock import Clock
from foundation.kernel.errors import Invalid
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.errors import ConditionFailed, TransactionConflict

RECOUNT_BELOW_FREE_PLACES = 100
"""From so many free places downwards, joins count again afterwards. More joins at once than this could slip through."""


class Joining:
    """Adds users to groups; who may do that is decided by the caller."""

    def __init__(
        self,
        *,
        memberships: MembershipStore,
        leaving: Leaving,
        users: UserDirectory,
        clock: Clock,
        limit: int = MAX_MEMBERS,
    ) -> None:
        self._memberships = memberships
        self._leaving = leaving
        self._users = users
        self._clock = clock
        self._limit = limit

    def join(self, chat_id: ChatId, user_id: UserId, role: Role) -> Member:
        """Raises `AlreadyAMember`, `GroupFull`, and `Invalid` for an unknown user."""
        face = self._users.find_public_users([user_id]).get(user_id)
        if face is None:
            raise Invalid("There is no such user", fields={"user_id": ["There is no such user."]})
        free = self._limit - self._memberships.count(chat_id)
        if free <= 0:
            self._refuse(chat_id, user_id)
        membership = Membership(chat_id=chat_id, user_id=user_id, role=role, joined_at=self._clock.now())
        try:
            self._memberships.add(membership)
        except ConditionFailed as error:
            raise AlreadyAMember from error
        if free <= RECOUNT_BELOW_FREE_PLACES and self._memberships.count(chat_id) > self._limit:
            self._undo(membership)
        return Member(membership, face.display_name)

    def _refuse(self, chat_id: ChatId, user_id: UserId) -> None:
        if self._memberships.find(chat_id, user_id) is not None:
            raise AlreadyAMember
        raise GroupFull(f"A group has at most {self._limit:,} members")

    def _undo(self, membership: Membership) -> None:
        """Undo a join that others were faster than; who was removed or promoted meanwhile is left as they are.

        So is who cannot be undone in a busy chat: a group one over its limit is better than a member nobody knows of.
        """
        try:
            self._leaving.leave(membership)
        except (ConditionFailed, TransactionConflict):
            return
        raise GroupFull(f"A group has at most {self._limit:,} members")
