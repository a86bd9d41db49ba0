"""The events of a topic by chat, in the order of the log, in 17 bytes each: a week of them fits into memory."""

from array import array
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeGuard

from chats.events import changes_named
from foundation.kernel.events import (
    CHATS_CREATED,
    MEMBERSHIPS_CHANGED,
    MESSAGES_PERSISTED,
    REPUBLISHED_HEADER,
    Event,
    MalformedEvent,
)
from foundation.stores.kafka import Record
from messaging.domain import MAX_SEQUENCE

UNNUMBERED = 0
"""In place of a sequence, for an event that has none."""

EventKey = tuple[int, Hashable]


class ChatEvents:
    """The events of one chat. What they are about is kept as a hash, which is stable within a process."""

    __slots__ = ("_republished", "_sequences", "_subjects")

    def __init__(self) -> None:
        self._sequences = array("q")
        self._subjects = array("q")
        self._republished = bytearray()

    def __len__(self) -> int:
        return len(self._sequences)

    def add(self, sequence: int, subject: Hashable, *, republished: bool) -> None:
        """`subject` is a message id, or the user of a change, with the change where the event has no sequence."""
        self._sequences.append(sequence)
        self._subjects.append(hash(subject))
        self._republished.append(republished)

    def __iter__(self) -> Iterator[tuple[int, int, bool]]:
        """Sequence, hash of the subject, and whether it was published once more, in the order of the log."""
        return zip(self._sequences, self._subjects, map(bool, self._republished), strict=True)

    def places(self) -> set[tuple[int, int]]:
        """Sequences, each with the hash of its subject."""
        return set(zip(self._sequences, self._subjects, strict=True))


class EventIndex:
    """The events of one topic. Holds the chats in `wanted`, or all."""

    def __init__(self, topic: str, *, wanted: Collection[str] | None = None) -> None:
        self._topic = topic
        self._place_of = _PLACE_OF[topic]
        self._wanted = wanted
        self._by_chat: dict[str, ChatEvents] = {}
        self._changes: dict[str, ChatEvents] = {}
        self._first_times: dict[int, datetime] = {}
        self.malformed = 0

    @property
    def chat_ids(self) -> list[str]:
        return list(self._by_chat)

    def of(self, chat_id: str) -> ChatEvents:
        return self._by_chat.get(chat_id, _NONE)

    def changes_in(self, chat_id: str) -> ChatEvents:
        """The changes of members that entries of the chat tell of. Each has an event of its own, in another topic."""
        return self._changes.get(chat_id, _NONE)

    def first_times(self, partitions: Iterable[int]) -> list[datetime]:
        """When the first event of each of these partitions was made."""
        return [self._first_times[number] for number in partitions if number in self._first_times]

    def add(self, records: Iterable[Record]) -> None:
        for record in records:
            is_first = record.partition not in self._first_times
            if not is_first and self._wanted is not None and record.key not in self._wanted:
                continue
            try:
                event = Event.decode(record.value)
            except MalformedEvent:
                self.malformed += 1
                continue
            self._first_times.setdefault(record.partition, event.event_time)
            self._keep(record, event)

    def _keep(self, record: Record, event: Event) -> None:
        chat_id = event.payload.get("chat_id")
        place = self._place_of(event.payload) if event.topic == self._topic else None
        if not isinstance(chat_id, str) or place is None:
            self.malformed += 1
        elif self._wanted is None or chat_id in self._wanted:
            again = REPUBLISHED_HEADER in record.headers
            self._by_chat.setdefault(chat_id, ChatEvents()).add(*place, republished=again)
            for user_id, _ in changes_named(event.payload.get("notice")):
                self._changes.setdefault(chat_id, ChatEvents()).add(place[0], user_id, republished=again)


def _place_of_entry(payload: Mapping[str, Any]) -> EventKey | None:
    sequence, message_id = payload.get("sequence"), payload.get("message_id")
    return (sequence, message_id) if _is_sequence(sequence) and isinstance(message_id, str) else None


def _place_of_change(payload: Mapping[str, Any]) -> EventKey | None:
    user_id, change = payload.get("user_id"), payload.get("change_type")
    if not isinstance(user_id, str) or not isinstance(change, str):
        return None
    if "sequence" not in payload:  # in events of earlier releases
        return UNNUMBERED, (user_id, change)
    return (payload["sequence"], user_id) if _is_sequence(payload["sequence"]) else None


def _place_of_creation(payload: Mapping[str, Any]) -> EventKey | None:
    return UNNUMBERED, None


def _is_sequence(sequence: Any) -> TypeGuard[int]:
    return type(sequence) is int and 1 <= sequence <= MAX_SEQUENCE


_PLACE_OF: Mapping[str, Callable[[Mapping[str, Any]], EventKey | None]] = {
    MESSAGES_PERSISTED: _place_of_entry,
    MEMBERSHIPS_CHANGED: _place_of_change,
    CHATS_CREATED: _place_of_creation,
}
_NONE = ChatEvents()
