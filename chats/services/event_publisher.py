"""Tells the world what changed in `chats`, after the change is stored."""

import logging
from collections.abc import Sequence

from chats.domain import Chat, Membership
from chats.events import Change, chat_created, membership_changed
from foundation.kernel.clock import Clock
from foundation.kernel.events import Event
from foundation.kernel.ids import IdFactory, UserId
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka import Outgoing
from foundation.stores.kafka.announcer import Announcer

log = logging.getLogger(__name__)


class EventPublisher:
    """Announces changes of chats and memberships.

    The stored change stands whatever happens here. While Kafka is away the announcer keeps the event and publishes it
    later, in order; the caller is told of success, because what was asked for is done and must not be asked for again.
    """

    def __init__(self, *, announcer: Announcer, ids: IdFactory, clock: Clock) -> None:
        self._announcer = announcer
        self._ids = ids
        self._clock = clock

    def chat_created(self, chat: Chat, member_ids: Sequence[UserId]) -> None:
        self._announce([chat_created(chat, member_ids, event_id=self._ids.event())])

    def memberships_changed(self, change: Change, memberships: Sequence[Membership], *, changed_by: UserId) -> None:
        """One event for each membership, in the order given."""
        now = self._clock.now()
        self._announce(
            [
                membership_changed(change, membership, changed_by=changed_by, event_id=self._ids.event(), now=now)
                for membership in memberships
            ]
        )

    def _announce(self, events: Sequence[Event]) -> None:
        try:
            self._announcer.announce([Outgoing(event) for event in events])
        except EventLogUnavailable as error:
            names = ", ".join(f"{event.event_type} {event.event_id}" for event in events)
            log.warning("stored, to be announced later: %s (%s)", names, error.detail)
