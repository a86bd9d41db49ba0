"""The events of a topic by chat, in the order of the log, in 17 bytes each: a week of them fits into memory."""

from array import array
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from foundation.kernel.events import REPUBLISHED_HEADER, Event, MalformedEvent
from foundation.stores.kafka import Record

MAX_SEQUENCE = 2**53 - 1


class ChatEvents:
    """The events of one chat. Message ids are kept as hashes, which are stable within a process."""

    __slots__ = ("_ids", "_republished", "_sequences")

    def __init__(self) -> None:
        self._sequences = array("q")
        self._ids = array("q")
        self._republished = bytearray()

    def __len__(self) -> int:
        return len(self._sequences)

    def add(self, sequence: int, message_id: object, *, republished: bool) -> None:
        self._sequences.append(sequence)
        self._ids.append(hash(message_id))
        self._republished.append(republished)

    def __iter__(self) -> Iterator[tuple[int, int, bool]]:
        """Sequence, hash of the message id, and whether it was published once more, in the order of the log."""
        return zip(self._sequences, self._ids, map(bool, self._republished), strict=True)


class EventIndex:
    """Holds the chats in `wanted`, or all."""

    def __init__(self, *, wanted: Collection[str] | None = None) -> None:
        self._wanted = wanted
        self._by_chat: dict[str, ChatEvents] = {}
        self._first_times: dict[int, datetime] = {}
        self.malformed = 0

    @property
    def chat_ids(self) -> list[str]:
        return list(self._by_chat)

    def of(self, chat_id: str) -> ChatEvents:
        return self._by_chat.get(chat_id, _NONE)

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
        chat_id, sequence = event.payload.get("chat_id"), event.payload.get("sequence")
        if not isinstance(chat_id, str) or type(sequence) is not int or not 1 <= sequence <= MAX_SEQUENCE:
            self.malformed += 1
        elif self._wanted is None or chat_id in self._wanted:
            events = self._by_chat.setdefault(chat_id, ChatEvents())
            events.add(sequence, event.payload.get("message_id"), republished=REPUBLISHED_HEADER in record.headers)


_NONE = ChatEvents()
