"""Reconciliation: does Kafka tell what DynamoDB holds? Missing events can be published from what is stored.

DynamoDB is right. An event without an entry is reported and never repaired. Safe during traffic, and twice: entries
younger than ten seconds may still be under way and are not missing, and those older than the log are not compared.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from chats.stores.inspection import SCAN_COUNTERS, ChatInspection
from foundation.kernel.clock import Clock, to_iso
from foundation.kernel.events import MESSAGES_PERSISTED
from foundation.kernel.ids import ChatId
from foundation.stores.errors import StoreUnavailable
from foundation.stores.kafka import EventLogAdmin, LogReader
from messaging.services.republishing import Republisher
from messaging.stores.inspection import Item, LogInspection, is_torn
from messaging.stores.recent_chats import RecentChatsReader
from staff.findings import Finding, Report, in_order
from staff.services.comparison import REPAIRABLE, Entry, Window, compare
from staff.services.event_index import ChatEvents, EventIndex
from staff.services.scanning import ITEMS_PER_SECOND, PAGE, OnProgress, Pace, no_progress, pages

log = logging.getLogger(__name__)

GRACE = timedelta(seconds=10)
"""An entry this young may have its event under way."""
MARGIN = timedelta(minutes=1)
"""Clocks of processes differ, and Kafka deletes while it is read: the beginning of a trimmed log is not compared."""
CHATS_AT_ONCE = 8
CHATS_PER_SECOND = 200.0


@dataclass(frozen=True, slots=True)
class Scope:
    """Which chats: those named, or all that were written since a time, or all that exist."""

    chat_ids: Sequence[str] = ()
    since: datetime | None = None
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Stores:
    """What reconciliation reads and, for a repair, publishes through."""

    chats: ChatInspection
    entries: LogInspection
    republisher: Republisher
    recent: RecentChatsReader


@dataclass(frozen=True, slots=True)
class EventLog:
    """Kafka, as reconciliation reads it."""

    reader: LogReader
    topics: EventLogAdmin


class Reconciler:
    """For an operator's command or page. `run` is a coroutine of the service loop; it reads Kafka in a thread."""

    def __init__(self, *, stores: Stores, log: EventLog, clock: Clock, grace: timedelta = GRACE) -> None:
        self._stores = stores
        self._log = log
        self._clock = clock
        self._grace = grace

    async def run(self, scope: Scope, *, repair: bool = False, on_progress: OnProgress = no_progress) -> Report:
        """Compare, and publish what is missing if asked to. Raises `StoreUnavailable` when an engine is away."""
        now = self._clock.now()
        index, first = await asyncio.to_thread(self._read_events, scope, now, on_progress)
        window = Window(first, now - self._grace)
        findings: list[Finding] = []
        checked, pace = 0, Pace(CHATS_PER_SECOND)
        async for chat_ids in self._chats(scope, index, on_progress):
            for start in range(0, len(chat_ids), CHATS_AT_ONCE):
                batch = chat_ids[start : start + CHATS_AT_ONCE]
                await pace.take(len(batch))
                for found in await asyncio.gather(*[self._check(each, index, window, repair) for each in batch]):
                    findings += found
                checked += len(batch)
                on_progress("chats", checked)
        return Report(in_order(findings), checked, _notes(scope, index, window))

    async def check(self, chat_id: str, events: ChatEvents, window: Window, *, repair: bool) -> list[Finding]:
        """Compare one chat with events that were read before; publish what is missing if asked to."""
        entries = await self._entries(chat_id, events, window)
        findings = list(compare(chat_id, entries, events, window))
        if not repair:
            return findings
        whole = {sequence for sequence, entry in entries.items() if not entry.is_torn}
        sequences = whole & {each.sequence for each in findings if each.kind in REPAIRABLE}
        published = await self._stores.republisher.republish(ChatId(chat_id), sequences)
        return [each.mended() if each.kind in REPAIRABLE and each.sequence in published else each for each in findings]

    async def _check(self, chat_id: str, index: EventIndex, window: Window, repair: bool) -> list[Finding]:
        return await self.check(chat_id, index.of(chat_id), window, repair=repair)

    def _read_events(self, scope: Scope, now: datetime, on_progress: OnProgress) -> tuple[EventIndex, datetime]:
        """The events, and the time from which on the log is complete."""
        first = now - self._log.topics.retention(MESSAGES_PERSISTED)
        if scope.since is not None:
            first = max(first, scope.since)
        index = EventIndex(wanted=frozenset(scope.chat_ids) if scope.chat_ids else None)
        span, done = self._log.reader.span(MESSAGES_PERSISTED, first), 0
        for records in self._log.reader.read(span):
            index.add(records)
            done += len(records)
            on_progress("events", done, span.size)
        return index, max([first, *(time + MARGIN for time in index.first_times(span.trimmed))])

    async def _chats(self, scope: Scope, index: EventIndex, on_progress: OnProgress) -> AsyncIterator[Sequence[str]]:
        """Chats that exist, or are named, or have events: an orphan's chat may not exist."""
        if not scope.everything:
            yield list(dict.fromkeys(scope.chat_ids)) or await asyncio.to_thread(self._recent, scope, index)
            return
        unseen = set(index.chat_ids)
        pace, scanned = Pace(ITEMS_PER_SECOND), 0
        async for items in pages(
            lambda start: self._stores.chats.scan(SCAN_COUNTERS, limit=PAGE, start=start), pace=pace
        ):
            chat_ids = [str(item["chat_id"]["S"]) for item in items]
            unseen.difference_update(chat_ids)
            scanned += len(items)
            on_progress("counters", scanned)
            yield chat_ids
        yield sorted(unseen)

    def _recent(self, scope: Scope, index: EventIndex) -> list[str]:
        """Chats with an event since the time, and those that `web` noted: their only event may be the lost one."""
        try:
            noted = self._stores.recent.since(scope.since.timestamp()) if scope.since is not None else []
        except StoreUnavailable as error:
            log.warning("chats without any event are not found: %s", error.detail)
            noted = []
        return list(dict.fromkeys([*index.chat_ids, *noted]))

    async def _entries(self, chat_id: str, events: ChatEvents, window: Window) -> dict[int, Entry]:
        """The entries of the window, from the newest back, and those that the events name."""
        found: dict[int, Entry] = {}
        oldest = to_iso(window.first - MARGIN)
        async for items in self._stores.entries.entries(ChatId(chat_id), newest_first=True):
            found |= _by_sequence(items)
            if (items[-1].get("created_at") or "") < oldest:
                break
        if unread := {sequence for sequence, _, _ in events} - found.keys():
            found |= _by_sequence(await self._stores.entries.entries_at(ChatId(chat_id), sorted(unread)))
        return found


def _by_sequence(items: Iterable[Item]) -> dict[int, Entry]:
    return {item["sequence"]: Entry(item.get("message_id"), item.get("created_at"), is_torn(item)) for item in items}


def _notes(scope: Scope, index: EventIndex, window: Window) -> list[str]:
    notes = [f"Compared what was stored from {to_iso(window.first)} to {to_iso(window.last)}."]
    if scope.everything:
        notes.insert(0, "Scanned the table of counters: an offline scan, at a limited rate.")
    if index.malformed:
        notes.append(f"{index.malformed} events in the log cannot be read; consumers skip them.")
    return notes
