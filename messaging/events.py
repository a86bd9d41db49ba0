"""What messaging tells the world, once it is stored."""

from datetime import datetime

from foundation.kernel.events import ORIGIN_HEADER, Event
from foundation.kernel.ids import ConnectionId, EventId
from foundation.stores.kafka import Outgoing
from messaging.domain import Message


def message_persisted(
    message: Message, *, event_id: EventId, now: datetime, origin: ConnectionId | None = None
) -> Outgoing:
    """The message is durable at its place. `origin` names the connection that needs no copy of it."""
    event = Event(
        event_type="MessagePersisted",
        event_id=event_id,
        event_time=now,
        partition_key=message.chat_id,
        payload=message.to_json(),
    )
    return Outgoing(event, headers=() if origin is None else ((ORIGIN_HEADER, origin.encode()),))
