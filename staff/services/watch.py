"""The watcher: publishes what a crashed process has stored and not published, without any client.

At each check it reads what Kafka has taken since the last, and asks DynamoDB for the counters of the chats that `web`
processes noted in Redis (`recent_chats`), and of some others in rotation. What is older than ten seconds and Kafka
does not have is published: a sequence that a counter has given out, a change of members that an entry tells of, and the
creation of a chat that the watcher meets. In the normal case that costs one read of a counter a chat and check, and one
of each chat it meets. ADR-025 has the guarantee.
"""

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from prometheus_client import Counter

from foundation.kernel.clock import Clock, from_iso, is_iso
from foundation.kernel.errors import Unavailable
from foundation.kernel.events import CHATS_CREATED, MEMBERSHIPS_CHANGED, MESSAGES_PERSISTED, TOPICS
from foundation.kernel.ids import ChatId
from foundation.kernel.loops import ServiceLoop
from foundation.stores.kafka import LogReader
from messaging.services.recent_chats import NOTE_EVERY
from messaging.stores.inspection import is_torn
from staff.services.comparison import list_unpublished
from staff.services.event_log import GRACE, EventLog
from staff.services.log_tail import LOOK_BACK, LogTail
from staff.services.reconcile import Stores, noticed_changes

log = logging.getLogger(__name__)

ROUNDS = Counter("parley_watch_rounds_total", "Rounds that the watcher has finished.")
CHECKED = Counter("parley_watch_chats_total", "Counters of chats that the watcher compared with the log.")
PUBLISHED = Counter("parley_watch_published_total", "Events that the watcher published because they were lost.")

CHECK_SECONDS = 5.0
MARGIN_SECONDS = 15.0
"""For clocks that differ, and for a transaction that takes long."""
FIRST_LOOK = 100
"""Sequences to look at in a chat that the watcher meets. A crash loses at most one batch of a chat, 49 entries."""
ROTATED = 100
"""Chats in a check that nobody noted."""
COUNTERS_AT_ONCE = 100
ENTRIES_PER_READ = 1_000
CAPACITY = 100_000

Item = Mapping[str, Any]


@dataclass(slots=True)
class Lost:
    """What a chat has and Kafka does not tell of. `complete_to`: up to here nothing may still be under way."""

    complete_to: int
    entries: list[int] = field(default_factory=list)
    changes: list[tuple[int, str]] = field(default_factory=list)


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
        self._clock = clock
        self._loop = loop
        self._grace = grace
        self._log = log
        self._tails = {topic: LogTail(topic, log.topics, now=clock.now()) for topic in TOPICS}
        self._checked_at = clock.now() - LOOK_BACK
        # Up to here, everything of the chat is known to have its event, its creation included.
        self._complete_to: OrderedDict[str, int] = OrderedDict()
        self._rotation: list[str] = []

    def run(self, stop: threading.Event) -> None:
        """Watch until `stop`. An engine that is away delays a check."""
        while not stop.is_set():
            try:
                self.check_once()
            except (Unavailable, TimeoutError) as error:
                log.warning("the watch waits: %s", error)
            stop.wait(CHECK_SECONDS)

    def check_once(self) -> None:
        """Read the log to its present end, then check chats."""
        now = self._clock.now()
        for tail in self._tails.values():
            tail.read(self._reader, now)
        chat_ids = list(dict.fromkeys([*self._noted(), *self._rotated()]))
        for start in range(0, len(chat_ids), COUNTERS_AT_ONCE):
            self._loop.run(self._check(chat_ids[start : start + COUNTERS_AT_ONCE], now))
        self._checked_at = now
        ROUNDS.inc()

    @cached_property
    def _reader(self) -> LogReader:
        """Of all rounds. Made by the first, because most processes that could watch do not."""
        return self._log.open_reader()

    def _noted(self) -> list[str]:
        """Chats that may have what the last check could not see: it was too young, or not yet written."""
        lately = self._checked_at.timestamp() - NOTE_EVERY - self._grace.total_seconds() - MARGIN_SECONDS
        try:
            return [str(chat_id) for chat_id in self._stores.recent.since(lately)]
        except Unavailable as error:
            log.warning("no notes of written chats: %s", error.detail)
            return []

    def _rotated(self) -> list[str]:
        """A few of the chats in the log, each in its turn: for when the notes were lost."""
        if not self._rotation:
            self._rotation = list({chat_id for tail in self._tails.values() for chat_id in tail.chat_ids})
        taken, self._rotation = self._rotation[:ROTATED], self._rotation[ROTATED:]
        return taken

    async def _check(self, chat_ids: Sequence[str], now: datetime) -> None:
        counters = await self._stores.chats.counters(chat_ids)
        CHECKED.inc(len(chat_ids))
        met = [chat_id for chat_id in counters if chat_id not in self._complete_to]
        chats = await self._stores.chats.chats(met) if met else {}
        await asyncio.gather(
            *[self._check_moved(chat_id, item, chats.get(chat_id), now) for chat_id, item in counters.items()]
        )

    async def _check_moved(self, chat_id: str, item: Item, met: Item | None, now: datetime) -> None:
        """Check a chat that has moved. One whose items cannot be understood is logged, and does not stop the others."""
        try:
            counter = int(item.get("sequence_counter") or 0)
            if counter > self._complete_to.get(chat_id, -1):
                await self._check_chat(chat_id, counter, met, now)
        except (Unavailable, TimeoutError):
            raise
        except Exception:
            log.exception("the watch skips %s: run `manage.py audit --chat` of it", chat_id)

    async def _check_chat(self, chat_id: str, counter: int, met: Item | None, now: datetime) -> None:
        """Publish what is missing, and remember up to where nothing is. A chat that is new here comes as `met`."""
        is_created = met is None or await self._check_creation(chat_id, met, now)
        lost = await self._find_lost(chat_id, counter, now)
        if lost.entries:
            await self._stores.republisher.republish(ChatId(chat_id), lost.entries)
            self._report(chat_id, MESSAGES_PERSISTED, lost.entries)
        if lost.changes:
            await self._stores.republisher.republish_changes(ChatId(chat_id), lost.changes)
            self._report(chat_id, MEMBERSHIPS_CHANGED, [f"{user_id} by {at}" for at, user_id in lost.changes])
        if is_created:
            self._remember(chat_id, lost.complete_to)

    async def _check_creation(self, chat_id: str, chat: Item, now: datetime) -> bool:
        """Publish the creation if its event was lost. Whether it need not be looked at again."""
        tail, created_at = self._tails[CHATS_CREATED], chat.get("created_at")
        if not is_iso(created_at) or from_iso(created_at) < tail.known_since or tail.places(chat_id):
            return True
        if from_iso(created_at) > now - self._grace:
            return False
        if await self._stores.creations.republish(ChatId(chat_id)):
            self._report(chat_id, CHATS_CREATED, [created_at])
        return True

    async def _find_lost(self, chat_id: str, counter: int, now: datetime) -> Lost:
        persisted, changed = self._tails[MESSAGES_PERSISTED], self._tails[MEMBERSHIPS_CHANGED]
        announced = {sequence for sequence, _ in persisted.places(chat_id)}
        logged = changed.places(chat_id)
        doubtful = {sequence for sequence, _ in persisted.changes_in(chat_id) - logged}
        first = self._complete_to.get(chat_id, max(0, counter - FIRST_LOOK)) + 1
        lost = Lost(counter)
        unread = [each for each in range(first, counter + 1) if each not in announced or each in doubtful]
        async for entry in self._entries(chat_id, unread):
            sequence, created_at = int(entry["sequence"]), from_iso(entry["created_at"])
            is_lost = sequence not in announced and created_at >= persisted.known_since
            changes = (
                list_unpublished(sequence, noticed_changes(entry), logged) if created_at >= changed.known_since else []
            )
            if created_at <= now - self._grace:
                lost.entries += [sequence] if is_lost else []
                lost.changes += [(sequence, user_id) for user_id, _ in changes]
            elif is_lost or changes:
                lost.complete_to = min(lost.complete_to, sequence - 1)
        return lost

    async def _entries(self, chat_id: str, sequences: Sequence[int]) -> AsyncIterator[Item]:
        """The entries that are whole, in order, some at a time."""
        for first in range(0, len(sequences), ENTRIES_PER_READ):
            some = sequences[first : first + ENTRIES_PER_READ]
            found = await self._stores.entries.entries_at(ChatId(chat_id), some)
            for entry in sorted(found, key=lambda each: int(each["sequence"])):
                if not is_torn(entry):
                    yield entry

    def _report(self, chat_id: str, topic: str, published: Iterable[object]) -> None:
        names = list(map(str, published))
        PUBLISHED.inc(len(names))
        log.warning("published lost events of %s in %s: %s", chat_id, topic, ", ".join(names))

    def _remember(self, chat_id: str, sequence: int) -> None:
        self._complete_to[chat_id] = sequence
        self._complete_to.move_to_end(chat_id)
        if len(self._complete_to) > CAPACITY:
            self._complete_to.popitem(last=False)
