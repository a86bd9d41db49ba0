"""Adds users to existing groups, up to the member limit (ADR-012).

There is no counter of members, because all joins would contend for it. A join counts the members with a strongly
consistent read before the write and, near the limit, again after it; if the group is then over its limit, the join is
undone. So concurrent joins for the last free place may all be refused, and a group does not stay over its limit.
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
"""With at most this many free places, a join counts again. More concurrent joins than this could exceed the limit."""


class Joining:
    """Adds users to groups. Callers check the right to do so."""

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
        user = self._users.find_public_users([user_id]).get(user_id)
        if user is None:
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
        return Member(membership, user.display_name)

    def _refuse(self, chat_id: ChatId, user_id: UserId) -> None:
        if self._memberships.find(chat_id, user_id) is not None:
            raise AlreadyAMember
        raise GroupFull(f"A group has at most {self._limit:,} members")

    def _undo(self, membership: Membership) -> None:
        """Undo a join that exceeded the limit, and raise `GroupFull`.

        If the membership has changed since, or the chat is too busy, the join stands: one member over the limit is
        better than a member without an event.
        """
        try:
            self._leaving.leave(membership)
        except (ConditionFailed, TransactionConflict):
            return
        raise GroupFull(f"A group has at most {self._limit:,} members")
