"""The events of chats (docs/architecture.md). They are published after the change is committed, never before."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from chats.domain import Chat, Membership
from foundation.kernel.events import Event
from foundation.kernel.ids import EventId, UserId


class Change(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    ROLE_CHANGED = "role_changed"


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
    change: Change, membership: Membership, *, changed_by: UserId, event_id: EventId, now: datetime
) -> Event:
    """`membership` is the state after the change, or the last state of a removed membership."""
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
        },
    )
