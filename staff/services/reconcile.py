"""Reconciliation: does Kafka tell what DynamoDB holds? Missing events can be published from what is stored.

Three things have events: the creation of a chat, each entry of its log, and each change of its members, which a notice
in the log tells of. DynamoDB is right. An event of what is not stored is reported and never repaired. Safe during
traffic, and twice: what is younger than ten seconds may be under way and is not missing, and what is older than the
log is not compared.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta

import orjson

from chats.events import changes_named
from chats.services.republishing import CreationRepublisher
from chats.stores.inspection import SCAN_COUNTERS, ChatInspection
from foundation.kernel.clock import Clock, to_iso
from foundation.kernel.events import CHATS_CREATED, MEMBERSHIPS_CHANGED, MESSAGES_PERSISTED
from foundation.kernel.ids import ChatId
from foundation.stores.errors import StoreUnavailable
from messaging.services.republishing import Republisher
from messaging.stores.inspection import Item, LogInspection, is_torn
from messaging.stores.recent_chats import TTL_SECONDS, RecentChatsReader
from staff.findings import Finding, Report, in_order
from staff.services.comparison import (
    CHAT_MISSING,
    REPAIRABLE,
    Entry,
    UserChange,
    compare_changes,
    compare_creation,
    compare_entries,
)
from staff.services.event_index import UNNUMBERED
from staff.services.event_log import GRACE, MARGIN, EventLog, LoggedEvents, read_topics
from staff.services.scanning import ITEMS_PER_SECOND, PAGE, OnProgress, Pace, no_progress, pages

CHATS_AT_ONCE = 8
CHATS_PER_SECOND = 200.0
NOTED_FOR = timedelta(seconds=TTL_SECONDS) + MARGIN
"""How long `web` notes in Redis which chats it wrote."""


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
    creations: CreationRepublisher
    republisher: Republisher
    recent: RecentChatsReader


class Reconciler:
    """For an operator's command or page. `run` is a coroutine of the service loop; it reads Kafka in a thread."""

    def __init__(self, *, stores: Stores, log: EventLog, clock: Clock, grace: timedelta = GRACE) -> None:
        self._stores = stores
        self._log = log
        self._clock = clock
        self._grace = grace

    async def run(self, scope: Scope, *, repair: bool = False, on_progress: OnProgress = no_progress) -> Report:
        """Compare, and publish what is missing if asked to. Raises `StoreUnavailable` when an engine is away.

        Of named chats, only their own partitions are read, unless something is missing there: while the topics had
        fewer partitions, the events of a chat were in another one.
        """
        if scope.chat_ids:
            report = await self._compare(scope, keys=scope.chat_ids, repair=False, on_progress=on_progress)
            if not any(each.kind in REPAIRABLE for each in report.findings):
                return report
        return await self._compare(scope, keys=(), repair=repair, on_progress=on_progress)

    async def _compare(self, scope: Scope, *, keys: Sequence[str], repair: bool, on_progress: OnProgress) -> Report:
        logged = await asyncio.to_thread(
            read_topics,
            self._log,
            since=scope.since,
            wanted=frozenset(scope.chat_ids) if scope.chat_ids else None,
            now=self._clock.now(),
            grace=self._grace,
            on_progress=on_progress,
            keys=keys,
        )
        findings: list[Finding] = []
        notes, unseen = _notes(scope, logged), list[str]()
        checked, pace = 0, Pace(CHATS_PER_SECOND)
        async for chat_ids in self._chats(scope, logged, on_progress, notes, unseen):
            for start in range(0, len(chat_ids), CHATS_AT_ONCE):
                batch = chat_ids[start : start + CHATS_AT_ONCE]
                await pace.take(len(batch))
                findings += await self._check(batch, logged, named=set(scope.chat_ids), repair=repair)
                checked += len(batch)
                on_progress("chats", checked)
        return Report(in_order(findings), checked, notes, _all_well(checked), " ".join(unseen))

    async def _check(
        self, chat_ids: Sequence[str], logged: LoggedEvents, *, named: Set[str], repair: bool
    ) -> list[Finding]:
        """Compare these chats. Those that an operator has `named` must exist."""
        chats = await self._stores.chats.chats(chat_ids)
        missing = [
            Finding(CHAT_MISSING, "There is no such chat.", each) for each in chat_ids if each in named - chats.keys()
        ]
        checks = [self._check_chat(each, chats.get(each), logged, repair=repair) for each in chat_ids]
        return missing + [finding for found in await asyncio.gather(*checks) for finding in found]

    async def _check_chat(
        self, chat_id: str, chat: Item | None, logged: LoggedEvents, *, repair: bool
    ) -> list[Finding]:
        """Compare one chat with events that were read before; publish what is missing if asked to."""
        entries = await self._entries(chat_id, logged)
        created, persisted, changed = [
            (logged.of(topic, chat_id), logged.windows[topic])
            for topic in (CHATS_CREATED, MESSAGES_PERSISTED, MEMBERSHIPS_CHANGED)
        ]
        findings = [
            *compare_creation(chat_id, chat, *created),
            *compare_entries(chat_id, entries, *persisted),
            *compare_changes(chat_id, entries, *changed),
        ]
        return await self._repaired(ChatId(chat_id), findings, entries) if repair else findings

    async def _repaired(self, chat_id: ChatId, findings: Sequence[Finding], entries: dict[int, Entry]) -> list[Finding]:
        """Publish what is missing: the creation, then entries, then changes, each in its order."""
        published: dict[str | None, set[tuple[int, str]]] = {}
        for topic in (CHATS_CREATED, MESSAGES_PERSISTED, MEMBERSHIPS_CHANGED):
            wanted = {_place(each) for each in findings if each.topic == topic and each.kind in REPAIRABLE}
            whole = {each for each in wanted if each[0] not in entries or not entries[each[0]].is_torn}
            if whole:
                published[topic] = await self._publish(topic, chat_id, whole)
        return [
            each.as_repaired() if each.kind in REPAIRABLE and _place(each) in published.get(each.topic, ()) else each
            for each in findings
        ]

    async def _publish(self, topic: str, chat_id: ChatId, places: set[tuple[int, str]]) -> set[tuple[int, str]]:
        if topic == CHATS_CREATED:
            return places if await self._stores.creations.republish(chat_id) else set()
        if topic == MEMBERSHIPS_CHANGED:
            return await self._stores.republisher.republish_changes(chat_id, places)
        sequences = await self._stores.republisher.republish(chat_id, [sequence for sequence, _ in places])
        return {(sequence, "") for sequence in sequences}

    async def _chats(
        self, scope: Scope, logged: LoggedEvents, on_progress: OnProgress, notes: list[str], unseen: list[str]
    ) -> AsyncIterator[Sequence[str]]:
        """Chats that exist, or are named, or have events: an orphan's chat may not exist."""
        if not scope.everything:
            named = list(dict.fromkeys(scope.chat_ids))
            yield named or await asyncio.to_thread(self._recent, scope, logged, notes, unseen)
            return
        others = set(logged.chat_ids)
        pace, scanned = Pace(ITEMS_PER_SECOND), 0
        async for items in pages(
            lambda start: self._stores.chats.scan(SCAN_COUNTERS, limit=PAGE, start=start), pace=pace
        ):
            chat_ids = [str(item["chat_id"]["S"]) for item in items]
            others.difference_update(chat_ids)
            scanned += len(items)
            on_progress("counters", scanned)
            yield chat_ids
        yield sorted(others)

    def _recent(self, scope: Scope, logged: LoggedEvents, notes: list[str], unseen: list[str]) -> list[str]:
        """Chats with an event since the time, and those that `web` noted: their only event may be the lost one."""
        noted = list[ChatId]()
        if scope.since is None:
            return logged.chat_ids
        try:
            noted = self._stores.recent.since(scope.since.timestamp())
        except StoreUnavailable as error:
            unseen.append(f"{error.detail}: chats whose every event of that time is lost are not found. Try --all.")
        else:
            if self._clock.now() - scope.since > NOTED_FOR:
                notes.append(
                    "Chats whose every event is lost are known for an hour: earlier ones are found with --all alone."
                )
        return list(dict.fromkeys([*logged.chat_ids, *noted]))

    async def _entries(self, chat_id: str, logged: LoggedEvents) -> dict[int, Entry]:
        """The entries of the windows, from the newest back, and those that the events name."""
        found: dict[int, Entry] = {}
        topics = (MESSAGES_PERSISTED, MEMBERSHIPS_CHANGED)
        oldest = to_iso(min(logged.windows[topic].first for topic in topics) - MARGIN)
        async for items in self._stores.entries.entries(ChatId(chat_id), newest_first=True):
            found |= _by_sequence(items)
            if next((item["created_at"] for item in reversed(items) if not is_torn(item)), oldest) < oldest:
                break
        named = {sequence for topic in topics for sequence, _, _ in logged.of(topic, chat_id)} - {UNNUMBERED}
        if unread := named - found.keys():
            found |= _by_sequence(await self._stores.entries.entries_at(ChatId(chat_id), sorted(unread)))
        return found


def _by_sequence(items: Iterable[Item]) -> dict[int, Entry]:
    return {
        item["sequence"]: Entry(item.get("message_id"), item.get("created_at"), is_torn(item), noticed_changes(item))
        for item in items
    }


def noticed_changes(entry: Item) -> tuple[UserChange, ...]:
    """The changes of members that a stored entry tells of."""
    if "notice" not in entry:
        return ()
    try:
        notice = orjson.loads(entry["notice"])
    except orjson.JSONDecodeError:
        return ()
    return tuple((user_id, str(change)) for user_id, change in changes_named(notice))


def _place(finding: Finding) -> tuple[int, str]:
    return finding.sequence or UNNUMBERED, finding.user_id or ""


def _all_well(checked: int) -> str:
    chats = f"{checked:,} chat" if checked == 1 else f"{checked:,} chats"
    return (
        f"Nothing is missing: in {chats}, every creation, entry and change of members of that time has its event, "
        "and every event tells of what is stored."
    )


def _notes(scope: Scope, logged: LoggedEvents) -> list[str]:
    first = min(window.first for window in logged.windows.values())
    last = max(window.last for window in logged.windows.values())
    notes = [f"Compared what was stored from {to_iso(first)} to {to_iso(last)}."]
    for topic, window in logged.windows.items():
        if window.first - first > MARGIN:
            notes.append(f"The log of {topic} begins later: compared from {to_iso(window.first)}.")
    if scope.everything:
        notes.insert(0, "Scanned the table of counters: an offline scan, at a limited rate.")
    if logged.malformed:
        notes.append(f"{logged.malformed} events in the log cannot be read; consumers skip them.")
    return notes
