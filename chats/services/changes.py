"""Judges commands that change a chat's name or members, and builds their writes.

A command is judged on strongly consistent reads, and its writes are conditional on what was read, so that they fail
after a concurrent change. So a group always has exactly one owner, and never more members than its limit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from chats.domain import MAX_MEMBERS, Chat, Command, CommandType, Membership, Role
from chats.errors import (
    AlreadyAMember,
    DirectChatIsFixed,
    GroupFull,
    MemberNotFound,
    NothingToChange,
    OwnerMustTransfer,
    RoleTooLow,
)
from chats.stores.chats import ChatStore
from chats.stores.memberships import MembershipStore
from foundation.kernel.ids import UserId
from foundation.stores.dynamodb import Database, Write


@dataclass(frozen=True, slots=True)
class ChatSnapshot:
    """A chat as a command finds it: `memberships` are those of the people concerned, `members` is how many there are.

    `members` is None where nothing depends on it.
    """

    chat: Chat
    memberships: Mapping[UserId, Membership]
    members: int | None


@dataclass(frozen=True, slots=True)
class Change:
    """A command that may be stored: its notice, its writes, and what they add to the counts of the chat."""

    notice: Mapping[str, Any]
    writes: Sequence[Write]
    joined: int = 0
    departed: int = 0


class Changes:
    """Judges commands, and builds the writes of those that may be stored."""

    def __init__(self, database: Database, *, limit: int = MAX_MEMBERS) -> None:
        self._chats = ChatStore(database)
        self._memberships = MembershipStore(database)
        self._limit = limit
        self.pinning = self._chats.pinning
        self.count_members = self._memberships.count_members

    def judge(
        self, command: Command, caller_id: UserId, snapshot: ChatSnapshot, *, sequence: int, now: datetime
    ) -> Change:
        """The change that the command makes. `sequence` is that of its notice.

        Raises `DirectChatIsFixed`, `RoleTooLow`, `AlreadyAMember`, `GroupFull`, `MemberNotFound`, `OwnerMustTransfer`,
        `NothingToChange`.
        """
        if snapshot.chat.is_direct:
            raise DirectChatIsFixed
        caller = snapshot.memberships[caller_id]
        match command.type:
            case CommandType.RENAME:
                return self._rename(command, caller, now=now)
            case CommandType.ADD:
                return self._add(command, caller, snapshot, sequence=sequence, now=now)
            case CommandType.REMOVE:
                return self._remove(command, caller, snapshot)
            case CommandType.CHANGE_ROLE:
                return self._change_role(command, caller, snapshot)

    def _rename(self, command: Command, caller: Membership, *, now: datetime) -> Change:
        if not caller.role.may_manage:
            raise RoleTooLow("Only the owner and admins rename a group")
        name = str(command.name)
        renaming = self._chats.renaming(caller.chat_id, name, now=now)
        return Change({"type": "chat_renamed", "name": name}, [renaming])

    def _add(
        self, command: Command, caller: Membership, snapshot: ChatSnapshot, *, sequence: int, now: datetime
    ) -> Change:
        user_id, role = _user_of(command), command.role or Role.MEMBER
        require_may_add(caller.role, role)
        if user_id in snapshot.memberships:
            raise AlreadyAMember
        if snapshot.members is not None and snapshot.members >= self._limit:
            raise GroupFull(f"A group has at most {self._limit:,} members")
        joining = Membership(caller.chat_id, user_id, role, now, joined_sequence=sequence)
        return Change(_notice("member_added", {user_id: role}), [self._memberships.adding(joining)], joined=1)

    def _remove(self, command: Command, caller: Membership, snapshot: ChatSnapshot) -> Change:
        user_id = _user_of(command)
        leaves = user_id == caller.user_id
        if not leaves and not caller.role.may_manage:
            raise RoleTooLow("Only the owner and admins remove members")
        seen = _get(snapshot, user_id)
        if not leaves and not caller.role.may_remove(seen.role):
            raise RoleTooLow("Only the owner removes admins, and nobody removes the owner")
        if seen.role is Role.OWNER:
            raise OwnerMustTransfer("The owner hands over the ownership before leaving")
        notice = _notice("member_left" if leaves else "member_removed", {user_id: seen.role})
        return Change(notice, [self._memberships.removing(seen)], joined=-1, departed=1)

    def _change_role(self, command: Command, caller: Membership, snapshot: ChatSnapshot) -> Change:
        user_id, role = _user_of(command), command.role or Role.MEMBER
        if caller.role is not Role.OWNER:
            raise RoleTooLow("Only the owner changes roles")
        seen = _get(snapshot, user_id)
        if seen.role is role:
            raise NothingToChange
        if seen is caller:
            raise OwnerMustTransfer("Make another member the owner instead")
        roles, writes = {user_id: role}, [self._memberships.changing_role(seen, role)]
        if role is Role.OWNER:
            roles[caller.user_id] = Role.ADMIN
            writes.append(self._memberships.changing_role(caller, Role.ADMIN))
        return Change(_notice("role_changed", roles), writes)


def require_may_add(role: Role, new_role: Role) -> None:
    """Raises `RoleTooLow` unless the role may add a member with the new role."""
    if not role.may_manage:
        raise RoleTooLow("Only the owner and admins add members")
    if new_role is not Role.MEMBER and role is not Role.OWNER:
        raise RoleTooLow("Only the owner appoints admins")


def _notice(type: str, roles: Mapping[UserId, Role]) -> dict[str, Any]:
    return {"type": type, "user_ids": list(roles), "roles": [str(role) for role in roles.values()]}


def _user_of(command: Command) -> UserId:
    return UserId(str(command.user_id))


def _get(snapshot: ChatSnapshot, user_id: UserId) -> Membership:
    found = snapshot.memberships.get(user_id)
    if found is None:
        raise MemberNotFound
    return found
