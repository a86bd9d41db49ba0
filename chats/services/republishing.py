"""Publishes the event of a chat's creation again, from what is stored: for an event that was lost.

It tells the chat as it is now: its present name, and those of its first members who have not left since.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from chats.domain import Chat, ChatType
from chats.events import chat_created
from chats.stores.inspection import ChatInspection, Item
from foundation.kernel.clock import Clock, from_iso, is_iso
from foundation.kernel.events import REPUBLISHED_HEADER
from foundation.kernel.ids import ChatId, IdFactory, UserId
from foundation.stores.kafka import EventProducer, Outgoing

PUBLISH_TIMEOUT = 30.0
REQUIRED = ("created_by", "created_at", "updated_at")
"""What every chat has besides its key and its type. An item that lacks one is torn."""


class CreationRepublisher:
    """Safe to repeat and during traffic: clients that know the chat read it again."""

    def __init__(self, *, chats: ChatInspection, producer: EventProducer, clock: Clock, ids: IdFactory) -> None:
        self._chats = chats
        self._producer = producer
        self._clock = clock
        self._ids = ids

    async def republish(self, chat_id: ChatId) -> bool:
        """Publish the event of a stored chat; return whether Kafka has taken it. Not that of a torn item.

        Raises `EventLogUnavailable`.
        """
        item = (await self._chats.chats([chat_id])).get(chat_id)
        if item is None or _is_torn(item):
            return False
        members = first_members(item, await self._chats.members(chat_id))
        event = chat_created(_chat(item), members, event_id=self._ids.event())
        # The time of this publication, as in every event: readers of the log go by it.
        outgoing = Outgoing(replace(event, event_time=self._clock.now()), headers=((REPUBLISHED_HEADER, b"1"),))
        await asyncio.to_thread(self._producer.publish_and_wait, [outgoing], timeout=PUBLISH_TIMEOUT)
        return True


def first_members(chat: Item, memberships: Iterable[Item]) -> list[UserId]:
    """Those who are members since the chat was created, the creator first. Who joined later has a notice of it."""
    created_at, created_by = chat["created_at"], chat["created_by"]
    first = [
        UserId(each["user_id"])
        for each in memberships
        if each.get("joined_at") == created_at and not each.get("joined_sequence")
    ]
    return sorted(first, key=lambda user_id: (user_id != created_by, user_id))


def _is_torn(chat: Item) -> bool:
    is_whole = chat.get("chat_type") in _TYPES and all(isinstance(chat.get(name), str) for name in REQUIRED)
    return not (is_whole and is_iso(chat["created_at"]))


_TYPES = [str(each) for each in ChatType]


def _chat(item: Item) -> Chat:
    return Chat(
        chat_id=ChatId(item["chat_id"]),
        type=ChatType(item["chat_type"]),
        name=item.get("name"),
        created_by=UserId(item["created_by"]),
        created_at=from_iso(item["created_at"]),
        updated_at=from_iso(item["updated_at"]),
    )
