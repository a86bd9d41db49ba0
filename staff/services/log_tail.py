"""The end of a topic, as it grows: the events of the last 15 to 30 minutes, for the watcher."""

from datetime import datetime, timedelta

from foundation.stores.kafka import EventLogAdmin, LogReader, Span
from staff.services.event_index import EventIndex

LOOK_BACK = timedelta(minutes=15)
"""How much of the log the watcher knows at least."""


class LogTail:
    """Holds two indexes: when the newer is old enough, the older is forgotten. Blocking."""

    def __init__(self, topic: str, topics: EventLogAdmin, *, now: datetime) -> None:
        self._topic = topic
        self._topics = topics
        self._span: Span | None = None
        self._newer = self._older = EventIndex(topic)
        self._turned_at = now
        self.known_since = now
        """What was stored since then and has no event here has none."""

    def read(self, reader: LogReader, now: datetime) -> None:
        """Read the log to its present end. Raises `EventLogUnavailable`."""
        if self._span is None:
            retention = self._topics.retention(self._topic)
            self.known_since = now - min(LOOK_BACK, retention)
            span = reader.span(self._topic, self.known_since)
            is_cut = bool(span.trimmed)
        else:
            span = reader.continued(self._span)
            is_cut = span.first != self._span.end
        for records in reader.read(span):
            self._newer.add(records)
        self._span = span
        if is_cut:
            # Kafka has deleted what was not read yet, or lost its log: nothing older than this can be called missing.
            self.known_since = now
        if now - self._turned_at >= LOOK_BACK:
            self.known_since = max(self.known_since, self._turned_at)
            self._older, self._newer, self._turned_at = self._newer, EventIndex(self._topic), now

    @property
    def chat_ids(self) -> set[str]:
        return {*self._older.chat_ids, *self._newer.chat_ids}

    def places(self, chat_id: str) -> set[tuple[int, int]]:
        """The events of a chat: sequences, each with the hash of its subject."""
        return self._older.of(chat_id).places() | self._newer.of(chat_id).places()

    def changes_in(self, chat_id: str) -> set[tuple[int, int]]:
        """The changes of members that entries of the chat tell of, in the same form."""
        return self._older.changes_in(chat_id).places() | self._newer.changes_in(chat_id).places()
