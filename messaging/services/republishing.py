"""Publishes the events of stored entries again: for entries whose events were lost, or came in the wrong order.

The event is the one that the committer would have published, without the connection that sent it: that connection
gets a copy, which it drops. A header tells readers of the log that the order of such an event means nothing.
"""

import asyncio
from collections.abc import Iterable, Sequence

from chats.events import changes_named
from chats.services.chat_log import Notice
from chats.services.event_publisher import changes_of
from foundation.kernel.clock import Clock, from_iso
from foundation.kernel.events import REPUBLISHED_HEADER, Event
from foundation.kernel.ids import ChatId, IdFactory
from foundation.stores.kafka import EventProducer
from foundation.stores.kafka.producer import Outgoing
from messaging.domain import Message, entry_persisted
from messaging.stores.messages import MessageStore

BATCH = 100
PUBLISH_TIMEOUT = 30.0
_AGAIN = (REPUBLISHED_HEADER, b"1")


class Republisher:
    """Safe to repeat and during traffic: consumers drop what they have seen."""

    def __init__(self, *, messages: MessageStore, producer: EventProducer, clock: Clock, ids: IdFactory) -> None:
        self._messages = messages
        self._producer = producer
        self._clock = clock
        self._ids = ids

    async def republish(self, chat_id: ChatId, sequences: Iterable[int]) -> set[int]:
        """Publish the events of these messages in order; return the sequences that Kafka has taken.

        Reads the messages anew, so it never publishes what DynamoDB does not hold. Raises `EventLogUnavailable`.
        """
        wanted, published = sorted(set(sequences)), set[int]()
        for start in range(0, len(wanted), BATCH):
            found = await self._find(chat_id, wanted[start : start + BATCH])
            entries = await self._messages.filled(found)
            await self._publish([self._event(entry) for entry in entries])
            published |= {entry.sequence for entry in found}
        return published

    async def republish_changes(self, chat_id: ChatId, changes: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
        """Publish the events of these changes of members, in the order of their notices; return those taken by Kafka.

        A change is the sequence of its notice and the user whose membership it is about. Reads the notices anew, like
        `republish`. Raises `EventLogUnavailable`.
        """
        wanted, published = set(changes), set[tuple[int, str]]()
        sequences = sorted({sequence for sequence, _ in wanted})
        for start in range(0, len(sequences), BATCH):
            notices = await self._find(chat_id, sequences[start : start + BATCH])
            events = [event for notice in notices for event in self._changes(notice) if _change_of(event) in wanted]
            await self._publish([Outgoing(event, headers=(_AGAIN,)) for event in events])
            published |= set(map(_change_of, events))
        return published

    async def _find(self, chat_id: ChatId, sequences: Sequence[int]) -> list[Message]:
        places = [(chat_id, sequence) for sequence in sequences]
        found = await self._messages.find_at(places)
        return [found[place] for place in places if place in found]

    async def _publish(self, events: Sequence[Outgoing]) -> None:
        await asyncio.to_thread(self._producer.publish_and_wait, events, timeout=PUBLISH_TIMEOUT)

    def _event(self, message: Message) -> Outgoing:
        announced = entry_persisted(message, event_id=self._ids.event(), now=self._clock.now())
        return Outgoing(announced.event, headers=(*announced.headers, _AGAIN))

    def _changes(self, entry: Message) -> list[Event]:
        if not changes_named(entry.notice):
            return []
        notice = Notice(entry.sequence, from_iso(entry.created_at), entry.notice or {})
        return changes_of(entry.chat_id, notice, changed_by=entry.sender_id, ids=self._ids, now=self._clock.now())


def _change_of(event: Event) -> tuple[int, str]:
    return event.payload["sequence"], event.payload["user_id"]
