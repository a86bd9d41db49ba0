"""Publishes the events of chats."""

import logging
from collections.abc import Sequence
from datetime import datetime

from chats.domain import Chat, Membership, Role
from chats.events import CHANGE_OF_NOTICE, chat_created, membership_changed
from chats.services.chat_log import Notice
from foundation.kernel.clock import Clock
from foundation.kernel.events import Event
from foundation.kernel.ids import ChatId, IdFactory, UserId
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

    def memberships_changed(self, chat_id: ChatId, notice: Notice, *, changed_by: UserId) -> None:
        """One event for each membership that the notice is about."""
        self._publish(changes_of(chat_id, notice, changed_by=changed_by, ids=self._ids, now=self._clock.now()))

    def _publish(self, events: Sequence[Event]) -> None:
        try:
            self._producer.publish_and_wait([Outgoing(event) for event in events])
        except EventLogUnavailable as error:
            names = ", ".join(f"{event.event_type} {event.event_id}" for event in events)
            log.warning("stored, to be published later: %s (%s)", names, error.detail)


def changes_of(chat_id: ChatId, notice: Notice, *, changed_by: UserId, ids: IdFactory, now: datetime) -> list[Event]:
    """The events of a notice about memberships: after the change, or as they last were."""
    change = CHANGE_OF_NOTICE[notice.fields["type"]]
    pairs = zip(notice.fields["user_ids"], notice.fields["roles"], strict=True)
    memberships = [Membership(chat_id, UserId(user_id), Role(role), notice.created_at) for user_id, role in pairs]
    return [
        membership_changed(change, each, sequence=notice.sequence, changed_by=changed_by, event_id=ids.event(), now=now)
        for each in memberships
    ]
