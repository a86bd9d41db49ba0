"""The events of chats (docs/architecture.md). They are published after the change is committed, never before."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from chats.domain import Chat, Membership, Role
from foundation.kernel.events import Event
from foundation.kernel.ids import EventId, UserId


class MembershipChange(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    ROLE_CHANGED = "role_changed"


CHANGE_OF_NOTICE = {
    "member_added": MembershipChange.ADDED,
    "member_removed": MembershipChange.REMOVED,
    "member_left": MembershipChange.REMOVED,
    "role_changed": MembershipChange.ROLE_CHANGED,
}
"""The notices of a chat's log that are also told as `MembershipChanged`, one event for each user they name."""
_ROLES = [str(role) for role in Role]


def changes_named(notice: object) -> list[tuple[str, MembershipChange]]:
    """Who changed, and how, by a notice of a chat's log. None for other notices, and for one that cannot be read."""
    if not isinstance(notice, dict) or notice.get("type") not in CHANGE_OF_NOTICE:
        return []
    user_ids, roles = notice.get("user_ids"), notice.get("roles")
    if not isinstance(user_ids, list) or not isinstance(roles, list) or len(user_ids) != len(roles):
        return []
    if not all(isinstance(user_id, str) for user_id in user_ids) or not all(role in _ROLES for role in roles):
        return []
    return [(user_id, CHANGE_OF_NOTICE[notice["type"]]) for user_id in user_ids]


def chat_created(chat: Chat, member_ids: Sequence[UserId], *, event_id: EventId) -> Event:
    return Event(
        event_type="ChatCreated",
        event_id=event_id,
        event_time=chat.created_at,
        partition_key=chat.chat_id,
        payload={
            "chat_id": chat.chat_id,
            "chat_type": str(chat.type),
            "name": chat.name,
            "created_by": chat.created_by,
            "initial_members": list(member_ids),
        },
    )


def membership_changed(
    change: MembershipChange,
    membership: Membership,
    *,
    sequence: int,
    changed_by: UserId,
    event_id: EventId,
    now: datetime,
) -> Event:
    """`membership` is the state after the change, or the last state of a removed membership.

    `sequence` is that of the notice in the chat's log. Events of earlier releases lack it.
    """
    return Event(
        event_type="MembershipChanged",
        event_id=event_id,
        event_time=now,
        partition_key=membership.chat_id,
        payload={
            "chat_id": membership.chat_id,
            "user_id": membership.user_id,
            "change_type": str(change),
            "role": str(membership.role),
            "changed_by": changed_by,
            "sequence": sequence,
        },
    )
