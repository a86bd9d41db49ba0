"""The watcher: publishes what a crashed process has stored and not published, without any client.

Each round it reads what Kafka has taken since the last, and asks DynamoDB for the counters of the chats that `web`
processes noted in Redis (`recent_chats`), and of some others in rotation. A sequence that a counter has given out and
Kafka has not told of, and whose entry is older than ten seconds, is published. In the normal case that costs one read
of a counter a chat and round. ADR-025 has the guarantee.
"""

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime, timedelta

from prometheus_client import Counter

from foundation.kernel.clock import Clock, from_iso
from foundation.kernel.errors import Unavailable
from foundation.kernel.events import MESSAGES_PERSISTED
from foundation.kernel.ids import ChatId
from foundation.kernel.loops import ServiceLoop
from foundation.stores.kafka import Span
from messaging.services.recent_chats import NOTE_EVERY
from messaging.stores.inspection import is_torn
from staff.services.event_index import EventIndex
from staff.services.reconcile import GRACE, EventLog, Stores

log = logging.getLogger(__name__)

CHECKED = Counter("parley_watch_chats_total", "Counters of chats that the watcher compared with the log.")
PUBLISHED = Counter("parley_watch_published_total", "Events that the watcher published because they were lost.")

ROUND_SECONDS = 5.0
MARGIN_SECONDS = 15.0
"""For clocks that differ, and for a transaction that takes long."""
LOOK_BACK = timedelta(minutes=15)
"""How much of the log the watcher knows at least."""
FIRST_LOOK = 100
"""Sequences to look at in a chat that the watcher meets. A crash loses at most one batch of a chat, 49 entries."""
ROTATED = 100
"""Chats in a round that nobody noted."""
COUNTERS_AT_ONCE = 100
CAPACITY = 100_000


class Watcher:
    """`run` blocks. Safe beside others: what is published twice is dropped by consumers."""

    def __init__(
        self,
        *,
        stores: Stores,
        log: EventLog,
        clock: Clock,
        loop: ServiceLoop,
        grace: timedelta = GRACE,
    ) -> None:
        self._stores = stores
        self._log = log
        self._clock = clock
        self._loop = loop
        self._grace = grace
        self._span: Span | None = None
        self._known_since = clock.now()
        # The events of the last minutes, in two parts: when the newer is old enough, the older is forgotten.
        self._newer = self._older = EventIndex()
        self._turned_at = clock.now()
        self._checked_at = clock.now() - LOOK_BACK
        # Up to here, every entry of the chat is known to have its event.
        self._settled: OrderedDict[str, int] = OrderedDict()
        self._rotation: list[str] = []

    def run(self, stop: threading.Event) -> None:
        """Watch until `stop`. An engine that is away delays a round."""
        while not stop.is_set():
            try:
                self.round()
            except (Unavailable, TimeoutError) as error:
                log.warning("the watch waits: %s", error)
            stop.wait(ROUND_SECONDS)

    def round(self) -> None:
        """Read the log to its present end, then check chats."""
        now = self._clock.now()
        self._read_log(now)
        chat_ids = list(dict.fromkeys([*self._noted(), *self._rotated()]))
        for start in range(0, len(chat_ids), COUNTERS_AT_ONCE):
            self._loop.run(self._check(chat_ids[start : start + COUNTERS_AT_ONCE], now))
        self._checked_at = now

    def _read_log(self, now: datetime) -> None:
        if self._span is None:
            retention = self._log.topics.retention(MESSAGES_PERSISTED)
            self._known_since = now - min(LOOK_BACK, retention)
            span = self._log.reader.span(MESSAGES_PERSISTED, self._known_since)
            is_cut = bool(span.trimmed)
        else:
            span = self._log.reader.continued(self._span)
            is_cut = span.first != self._span.end
        for records in self._log.reader.read(span):
            self._newer.add(records)
        self._span = span
        if is_cut:
            # Kafka has deleted what was not read yet, or lost its log: nothing older than this can be called missing.
            self._known_since = now
        if now - self._turned_at >= LOOK_BACK:
            self._known_since = max(self._known_since, self._turned_at)
            self._older, self._newer, self._turned_at = self._newer, EventIndex(), now

    def _noted(self) -> list[str]:
        """Chats that may have an entry which the last round could not see: it was too young, or not yet written."""
        lately = self._checked_at.timestamp() - NOTE_EVERY - self._grace.total_seconds() - MARGIN_SECONDS
        try:
            return [str(chat_id) for chat_id in self._stores.recent.since(lately)]
        except Unavailable as error:
            log.warning("no notes of written chats: %s", error.detail)
            return []

    def _rotated(self) -> list[str]:
        """A few of the chats in the log, each in its turn: for when the notes were lost."""
        if not self._rotation:
            self._rotation = list({*self._older.chat_ids, *self._newer.chat_ids})
        taken, self._rotation = self._rotation[:ROTATED], self._rotation[ROTATED:]
        return taken

    async def _check(self, chat_ids: Sequence[str], now: datetime) -> None:
        counters = await self._stores.chats.counters(chat_ids)
        CHECKED.inc(len(chat_ids))
        moved = {
            chat_id: counter
            for chat_id, item in counters.items()
            if (counter := int(item.get("sequence_counter") or 0)) > self._settled.get(chat_id, -1)
        }
        await asyncio.gather(*[self._check_chat(chat_id, counter, now) for chat_id, counter in moved.items()])

    async def _check_chat(self, chat_id: str, counter: int, now: datetime) -> None:
        """Publish what is missing, and remember up to where nothing is."""
        first = self._settled.get(chat_id, max(0, counter - FIRST_LOOK)) + 1
        announced = {sequence for part in (self._older, self._newer) for sequence, _, _ in part.of(chat_id)}
        unannounced = [sequence for sequence in range(first, counter + 1) if sequence not in announced]
        settled, lost = counter, []
        for entry in await self._stores.entries.entries_at(ChatId(chat_id), unannounced):
            if is_torn(entry) or (created_at := from_iso(entry["created_at"])) < self._known_since:
                continue
            if created_at > now - self._grace:
                settled = min(settled, int(entry["sequence"]) - 1)
            else:
                lost.append(int(entry["sequence"]))
        if lost:
            await self._publish(chat_id, sorted(lost))
        self._settle(chat_id, settled)

    async def _publish(self, chat_id: str, sequences: Sequence[int]) -> None:
        await self._stores.republisher.republish(ChatId(chat_id), sequences)
        PUBLISHED.inc(len(sequences))
        log.warning("published lost events of %s: %s", chat_id, ", ".join(map(str, sequences)))

    def _settle(self, chat_id: str, sequence: int) -> None:
        self._settled[chat_id] = sequence
        self._settled.move_to_end(chat_id)
        if len(self._settled) > CAPACITY:
            self._settled.popitem(last=False)
