"""Publishes the events of chats."""

import logging
from collections.abc import Sequence

from chats.domain import Chat, Membership
from chats.events import Change, chat_created, membership_changed
from foundation.kernel.clock import Clock
from foundation.kernel.events import Event
from foundation.kernel.ids import IdFactory, UserId
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka import EventProducer, Outgoing

log = logging.getLogger(__name__)


class EventPublisher:
    """Publishes stored changes. While Kafka is away, the producer keeps the events and publishes them later."""

    def __init__(self, *, producer: EventProducer, ids: IdFactory, clock: Clock) -> None:
        self._producer = producer
        self._ids = ids
        self._clock = clock

    def chat_created(self, chat: Chat, member_ids: Sequence[UserId]) -> None:
        self._publish([chat_created(chat, member_ids, event_id=self._ids.event())])

    def memberships_changed(self, change: Change, memberships: Sequence[Membership], *, changed_by: UserId) -> None:
        """One event for each membership, in the order given."""
        now = self._clock.now()
        self._publish(
            [
                membership_changed(change, membership, changed_by=changed_by, event_id=self._ids.event(), now=now)
                for membership in memberships
            ]
        )

    def _publish(self, events: Sequence[Event]) -> None:
        try:
            self._producer.publish_and_wait([Outgoing(event) for event in events])
        except EventLogUnavailable as error:
            names = ", ".join(f"{event.event_type} {event.event_id}" for event in events)
            log.warning("stored, to be published later: %s (%s)", names, error.detail)
