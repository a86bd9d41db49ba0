"""The event envelope, which all topics share.

Events tell what DynamoDB already holds: they are made after the commit, never before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from foundation.kernel.clock import from_iso, to_iso

MESSAGES_PERSISTED = "messages.persisted"
MEMBERSHIPS_CHANGED = "memberships.changed"
CHATS_CREATED = "chats.created"

TOPIC_OF = {
    "MessagePersisted": MESSAGES_PERSISTED,
    "EntryPersisted": MESSAGES_PERSISTED,
    "MembershipChanged": MEMBERSHIPS_CHANGED,
    "ChatCreated": CHATS_CREATED,
}
TOPICS = tuple(dict.fromkeys(TOPIC_OF.values()))

# A Kafka header of a message's event: the connection that sent it and needs no copy.
ORIGIN_HEADER = "origin-connection-id"
# A Kafka header of an event that was published once more by an operator's tool: its place in the log means nothing.
REPUBLISHED_HEADER = "republished"


class MalformedEvent(Exception):
    """The bytes are not an event. Carries the reason, never the content."""


@dataclass(frozen=True, slots=True)
class Event:
    event_type: str
    event_id: str
    event_time: datetime
    partition_key: str
    payload: Mapping[str, Any]

    @property
    def topic(self) -> str:
        return TOPIC_OF[self.event_type]

    def encode(self) -> bytes:
        return orjson.dumps(
            {
                "event_type": self.event_type,
                "event_id": self.event_id,
                "event_time": to_iso(self.event_time),
                "partition_key": self.partition_key,
                "payload": self.payload,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> "Event":
        """Read an envelope; fields added by a newer version are ignored. Raises `MalformedEvent`."""
        try:
            raw = orjson.loads(data)
            event = cls(
                event_type=raw["event_type"],
                event_id=raw["event_id"],
                event_time=from_iso(raw["event_time"]),
                partition_key=raw["partition_key"],
                payload=raw["payload"],
            )
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise MalformedEvent(f"{type(error).__name__} while reading the envelope") from error
        if not all(isinstance(text, str) for text in (event.event_type, event.event_id, event.partition_key)):
            raise MalformedEvent("a field of the envelope is not a string")
        if event.event_type not in TOPIC_OF:
            raise MalformedEvent("unknown event type")
        if not isinstance(event.payload, dict):
            raise MalformedEvent("the payload is not an object")
        return event
