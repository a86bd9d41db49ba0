"""Kafka as reconciliation reads it: the events of every topic, and the time for which the log of each is complete."""

from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta

from foundation.kernel.events import TOPICS
from foundation.stores.kafka import EventLogAdmin, LogReader
from staff.services.comparison import Window
from staff.services.event_index import ChatEvents, EventIndex
from staff.services.scanning import OnProgress

GRACE = timedelta(seconds=10)
"""What is this young may have its event under way."""
MARGIN = timedelta(minutes=1)
"""Clocks of processes differ, and Kafka deletes while it is read: the beginning of a trimmed log is not compared."""


@dataclass(frozen=True, slots=True)
class EventLog:
    """Opens readers of the log, one for each run, and tells how long it keeps a topic."""

    open_reader: Callable[[], LogReader]
    topics: EventLogAdmin


@dataclass(frozen=True, slots=True)
class LoggedEvents:
    """The events in the log, by topic. A window is the time in which what is stored must have its event."""

    events: Mapping[str, EventIndex]
    windows: Mapping[str, Window]

    def of(self, topic: str, chat_id: str) -> ChatEvents:
        return self.events[topic].of(chat_id)

    @property
    def chat_ids(self) -> list[str]:
        return list(dict.fromkeys(chat_id for index in self.events.values() for chat_id in index.chat_ids))

    @property
    def malformed(self) -> int:
        return sum(index.malformed for index in self.events.values())


def read_topics(
    log: EventLog,
    *,
    since: datetime | None,
    wanted: Collection[str] | None,
    now: datetime,
    grace: timedelta,
    on_progress: OnProgress,
    keys: Collection[str] = (),
) -> LoggedEvents:
    """Read every topic as far back as it goes, or from `since` on; of the partitions of `keys`, if there are any.

    Blocking. Raises `EventLogUnavailable`, and what `on_progress` raises.
    """
    events, windows = {}, {}
    with closing(log.open_reader()) as reader:
        for topic in TOPICS:
            first = now - log.topics.retention(topic)
            if since is not None:
                first = max(first, since)
            # The process that published may have an earlier time than the one that stored.
            span, done = reader.span(topic, first - MARGIN, keys=keys), 0
            index = events[topic] = EventIndex(topic, wanted=wanted)
            for records in reader.read(span):
                index.add(records)
                done += len(records)
                on_progress(f"events of {topic}", done, span.size)
            complete = max([first, *(time + MARGIN for time in index.first_times(span.trimmed))])
            windows[topic] = Window(complete, now - grace)
    return LoggedEvents(events, windows)
