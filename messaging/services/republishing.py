"""Publishes the events of stored messages again: for messages whose events were lost, or came in the wrong order.

The event is the one that the committer would have published, without the connection that sent it: that connection
gets a copy, which it drops. A header tells readers of the log that the order of such an event means nothing.
"""

import asyncio
from collections.abc import Iterable

from foundation.kernel.clock import Clock
from foundation.kernel.events import REPUBLISHED_HEADER
from foundation.kernel.ids import ChatId, IdFactory
from foundation.stores.kafka import EventProducer
from foundation.stores.kafka.producer import Outgoing
from messaging.domain import Message, entry_persisted
from messaging.stores.messages import MessageStore

BATCH = 100
PUBLISH_TIMEOUT = 30.0


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
            places = [(chat_id, sequence) for sequence in wanted[start : start + BATCH]]
            found = await self._messages.find_at(places)
            entries = await self._messages.filled([found[place] for place in places if place in found])
            events = [self._event(entry) for entry in entries]
            await asyncio.to_thread(self._producer.publish_and_wait, events, timeout=PUBLISH_TIMEOUT)
            published |= {sequence for _, sequence in found}
        return published

    def _event(self, message: Message) -> Outgoing:
        announced = entry_persisted(message, event_id=self._ids.event(), now=self._clock.now())
        return Outgoing(announced.event, headers=(*announced.headers, (REPUBLISHED_HEADER, b"1")))
