"""The table `chat_memberships`: the members of each chat and their roles.

Rights are checked on strongly consistent reads. Every change is conditional on the state it was checked on, so that it
fails after a concurrent change.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from chats.domain import Membership, Role
from chats.models import MembershipModel
from foundation.kernel.clock import from_iso, to_iso
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import (
    AccessPattern,
    BatchResult,
    Consistency,
    Database,
    Key,
    Operation,
    Write,
    plain,
)

CHECK_USER_IN_CHAT = AccessPattern(
    "Check user in chat", MembershipModel, Operation.GET, key="chat_id, user_id", consistency=Consistency.STRONG
)
CHECK_USERS_IN_CHATS = AccessPattern(
    "Check users in chats", MembershipModel, Operation.BATCH_GET, key="chat_id, user_id", consistency=Consistency.STRONG
)
LIST_CHAT_MEMBERS = AccessPattern(
    "List chat members", MembershipModel, Operation.QUERY, key="chat_id", consistency=Consistency.STRONG
)
LIST_USERS_CHATS = AccessPattern(
    "List user's chats",
    MembershipModel,
    Operation.QUERY,
    key="user_id",
    consistency=Consistency.EVENTUAL,
    index=MembershipModel.user_chats_index,
)
COUNT_CHAT_MEMBERS = AccessPattern(
    "Count chat members", MembershipModel, Operation.QUERY, key="chat_id (Select=COUNT)", consistency=Consistency.STRONG
)
ADD_MEMBER = AccessPattern(
    "Add member",
    MembershipModel,
    Operation.TRANSACT_PUT,
    key="chat_id, user_id",
    condition="attribute_not_exists(user_id)",
)
REMOVE_MEMBER = AccessPattern(
    "Remove member",
    MembershipModel,
    Operation.TRANSACT_DELETE,
    key="chat_id, user_id",
    condition="role = :seen AND joined_at = :seen",
)
CHANGE_ROLE = AccessPattern(
    "Change role",
    MembershipModel,
    Operation.TRANSACT_UPDATE,
    key="chat_id, user_id (both sides of a hand-over)",
    condition="role = :seen",
)
MUTE_CHAT = AccessPattern(
    "Mute chat", MembershipModel, Operation.UPDATE, key="chat_id, user_id", condition="attribute_exists(user_id)"
)
CREATE_MEMBERSHIP = AccessPattern(
    "Create membership with its chat", MembershipModel, Operation.TRANSACT_PUT, key="chat_id, user_id"
)
PREPARE_MEMBERSHIPS = AccessPattern(
    "Prepare memberships of a large group", MembershipModel, Operation.BATCH_PUT, key="chat_id, user_id"
)
END_MEMBERSHIP = AccessPattern(
    "End membership of an erased person",
    MembershipModel,
    Operation.TRANSACT_DELETE,
    key="chat_id, user_id",
    condition="attribute_exists(user_id)",
)
WITHDRAW_MEMBERSHIPS = AccessPattern(
    "Withdraw memberships of a large group", MembershipModel, Operation.BATCH_DELETE, key="chat_id, user_id"
)


@dataclass(frozen=True, slots=True)
class MembershipPage:
    """A page of memberships, and whether more follow."""

    memberships: list[Membership]
    more: bool


class MembershipStore:
    """Memberships by chat and user."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, chat_id: ChatId, user_id: UserId) -> Membership | None:
        item = self._database.get(CHECK_USER_IN_CHAT, chat_id, user_id)
        return None if item is None else _membership(item.attribute_values)

    def lookup(self, pairs: Iterable[tuple[ChatId, UserId]]) -> dict[AccessPattern[MembershipModel], list[Key]]:
        """The keys for a `batch_get` that also reads other tables."""
        return {CHECK_USERS_IN_CHATS: list(pairs)}

    def found_in(self, result: BatchResult) -> dict[tuple[ChatId, UserId], Membership]:
        """The memberships in the result of a `batch_get` with the keys of `lookup`."""
        memberships = [_membership(plain(item)) for item in result.raw(CHECK_USERS_IN_CHATS).values()]
        return {(membership.chat_id, membership.user_id): membership for membership in memberships}

    def pairs_in(self, result: BatchResult) -> set[tuple[ChatId, UserId]]:
        """Like `found_in`, without decoding the items, for the hot path."""
        items = result.raw(CHECK_USERS_IN_CHATS).values()
        return {(ChatId(item["chat_id"]["S"]), UserId(item["user_id"]["S"])) for item in items}

    def list_of_chat(self, chat_id: ChatId, *, limit: int, after: UserId | None) -> MembershipPage:
        """A page of a chat's members, ordered by user id."""
        position = None if after is None else {"chat_id": chat_id, "user_id": after}
        page = self._database.query(LIST_CHAT_MEMBERS, chat_id, limit=limit + 1, after=position)
        memberships = [_membership(item.attribute_values) for item in page.items[:limit]]
        return MembershipPage(memberships=memberships, more=page.more or len(page.items) > limit)

    async def list_user_ids(self, chat_id: ChatId) -> list[UserId]:
        """The user ids of all members of a chat, about a thousand at most. On the service loop."""
        return [UserId(item.user_id) for item in await self._database.on_loop.query_all(LIST_CHAT_MEMBERS, chat_id)]

    async def list_chat_ids(self, user_id: UserId, *, limit: int, after: ChatId | None) -> tuple[list[ChatId], bool]:
        """The chats of a user, newest first, and whether more follow. On the service loop."""
        position = None if after is None else {"user_id": user_id, "chat_id": after}
        page = await self._database.on_loop.query_raw(
            LIST_USERS_CHATS, user_id, limit=limit + 1, forward=False, after=position
        )
        return [ChatId(item["chat_id"]["S"]) for item in page.items[:limit]], page.more or len(page.items) > limit

    async def count_members(self, chat_id: ChatId) -> int:
        """On the service loop."""
        return await self._database.on_loop.count(COUNT_CHAT_MEMBERS, chat_id)

    def adding(self, membership: Membership) -> Write:
        """Fails if the user is already a member."""
        return self._database.putting(ADD_MEMBER, _item(membership), MembershipModel.user_id.does_not_exist())

    def removing(self, seen: Membership) -> Write:
        """Deletes the membership. Fails if it has changed since it was read."""
        condition = (MembershipModel.role == str(seen.role)) & (MembershipModel.joined_at == to_iso(seen.joined_at))
        return self._database.deleting(REMOVE_MEMBER, (seen.chat_id, seen.user_id), condition)

    def changing_role(self, seen: Membership, role: Role) -> Write:
        """Changes the role. Fails if it has changed since it was read."""
        key, condition = (seen.chat_id, seen.user_id), MembershipModel.role == str(seen.role)
        return self._database.updating(CHANGE_ROLE, key, [MembershipModel.role.set(str(role))], condition)

    def mute(self, chat_id: ChatId, user_id: UserId, until: datetime | None) -> Membership:
        """Raises `ConditionFailed` if the user is not a member."""
        muted_until = MembershipModel.muted_until
        action = muted_until.remove() if until is None else muted_until.set(to_iso(until))
        exists = MembershipModel.user_id.exists()
        return _membership(self._database.update(MUTE_CHAT, (chat_id, user_id), [action], exists).attribute_values)

    def creating(self, membership: Membership) -> Write:
        """Creates a membership together with its chat."""
        return self._database.putting(CREATE_MEMBERSHIP, _item(membership))

    def ending(self, chat_id: ChatId, user_id: UserId) -> Write:
        """Deletes the membership, whatever its role. Fails if there is none."""
        return self._database.deleting(END_MEMBERSHIP, (chat_id, user_id), MembershipModel.user_id.exists())

    def prepare(self, memberships: Sequence[Membership]) -> None:
        """Write memberships of a chat that does not exist yet. They are invisible until it does."""
        self._database.batch_put(PREPARE_MEMBERSHIPS, [_item(membership) for membership in memberships])

    def withdraw(self, memberships: Sequence[Membership]) -> None:
        """Delete memberships prepared for a chat that was not created."""
        keys: list[Key] = [(membership.chat_id, membership.user_id) for membership in memberships]
        self._database.batch_delete(WITHDRAW_MEMBERSHIPS, keys)


def _item(membership: Membership) -> MembershipModel:
    muted = membership.muted_until
    return MembershipModel(
        chat_id=membership.chat_id,
        user_id=membership.user_id,
        role=str(membership.role),
        joined_at=to_iso(membership.joined_at),
        muted_until=None if muted is None else to_iso(muted),
        joined_sequence=membership.joined_sequence or None,
    )


def _membership(values: Mapping[str, Any]) -> Membership:
    muted = values.get("muted_until")
    return Membership(
        chat_id=ChatId(values["chat_id"]),
        user_id=UserId(values["user_id"]),
        role=Role(values["role"]),
        joined_at=from_iso(values["joined_at"]),
        muted_until=None if muted is None else from_iso(muted),
        joined_sequence=int(values.get("joined_sequence") or 0),
    )
