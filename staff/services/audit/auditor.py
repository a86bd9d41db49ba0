"""Reads the facts, runs the checks, and repairs what is safe to repair."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from chats.domain import ChatType
from chats.stores.chats import direct_claim_id
from chats.stores.inspection import SCAN_CHATS, SCAN_COUNTERS, SCAN_MEMBERSHIPS
from foundation.kernel.clock import Clock
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import AccessPattern
from foundation.stores.dynamodb.table import plain
from foundation.stores.errors import ConditionFailed
from messaging.stores.inspection import Item
from staff.findings import Finding, Report, in_order
from staff.services.audit import chat_checks, user_checks
from staff.services.audit.chat_checks import ChatFacts
from staff.services.audit.log_facts import LogFacts
from staff.services.audit.problems import AuditStores, Problem, in_chat
from staff.services.audit.user_checks import PHONE, UserFacts, dangling_phone_claim
from staff.services.scanning import ITEMS_PER_SECOND, PAGE, OnProgress, Pace, no_progress, pages

DIRECT = "direct#"
AT_ONCE = 8
SUBJECTS_PER_SECOND = 100.0
# Gaps longer than this are not looked for entry by entry once more.
MAX_CONFIRMED = 1000

F = TypeVar("F")
Check = Callable[[], Coroutine[Any, Any, list[Problem]]]


@dataclass(frozen=True, slots=True)
class AuditScope:
    """Which chats and people: those named, or all."""

    chat_ids: Sequence[str] = ()
    user_ids: Sequence[str] = ()
    everything: bool = False


class Auditor:
    """For an operator's command or page: coroutines of the service loop."""

    def __init__(self, stores: AuditStores, *, clock: Clock) -> None:
        self._stores = stores
        self._clock = clock

    async def run(self, scope: AuditScope, *, repair: bool = False, on_progress: OnProgress = no_progress) -> Report:
        """Check, and repair what is safe if asked to. Raises `StoreUnavailable` when DynamoDB is away."""
        findings: list[Finding] = []
        checked, pace = 0, Pace(SUBJECTS_PER_SECOND)
        async for stage, batch in self._subjects(scope):
            for start in range(0, len(batch), AT_ONCE):
                part = batch[start : start + AT_ONCE]
                await pace.take(len(part))
                for problems in await asyncio.gather(*[check() for check in part]):
                    findings += [await self._repair(each) if repair else each.finding for each in problems]
                checked += len(part)
                on_progress(stage, checked)
        notes = ["Scanned chats, counters, memberships and users: an offline scan, at a limited rate."]
        return Report(in_order(findings), checked, notes if scope.everything else ())

    async def check_chat(self, chat_id: str) -> list[Problem]:
        """The problems of one chat."""
        facts = await self._chat_facts(chat_id)
        if facts.chat is None and facts.counter is None and not facts.members:
            return [in_chat("chat_missing", chat_id, "There is no such chat.")]
        return _problems(chat_checks.CHECKS, facts)

    async def check_user(self, user_id: str) -> list[Problem]:
        """The problems of one person."""
        return _problems(user_checks.CHECKS, await self._user_facts(user_id))

    async def _repair(self, problem: Problem) -> Finding:
        """Repaired, unless that is not safe, or somebody else has changed the item meanwhile."""
        if problem.repair is None:
            return problem.finding
        try:
            await problem.repair(self._stores)
        except ConditionFailed:
            return problem.finding
        return problem.finding.as_repaired()

    # What to check

    async def _subjects(self, scope: AuditScope) -> AsyncIterator[tuple[str, Sequence[Check]]]:
        yield "chats", [partial(self.check_chat, each) for each in dict.fromkeys(scope.chat_ids)]
        yield "people", [partial(self.check_user, each) for each in dict.fromkeys(scope.user_ids)]
        if not scope.everything:
            return
        async for items in self._scan(SCAN_COUNTERS):
            yield "chats", [partial(self.check_chat, str(item["chat_id"])) for item in items]
        met = set[str]()
        async for items in self._scan(SCAN_CHATS):
            claims = [item for item in items if str(item["chat_id"]).startswith(DIRECT)]
            yield "claims", [partial(self._check_direct_claim, claim) for claim in claims]
            yield "chats", await self._without_counter(items, met)
        async for items in self._scan(SCAN_MEMBERSHIPS):
            yield "memberships", await self._without_counter(items, met)
        async for raw in pages(
            lambda start: self._stores.users.scan(limit=PAGE, start=start), pace=Pace(ITEMS_PER_SECOND)
        ):
            users = [plain(each) for each in raw]
            claims = [each for each in users if str(each["user_id"]).startswith(PHONE)]
            yield "claims", [partial(self._check_phone_claim, claim) for claim in claims]
            people = [str(each["user_id"]) for each in users if "#" not in str(each["user_id"])]
            yield "people", [partial(self.check_user, user_id) for user_id in people]

    async def _without_counter(self, items: Iterable[Item], met: set[str]) -> list[Check]:
        """The chats of these items that neither the scan of counters nor an earlier item has led to."""
        chat_ids = dict.fromkeys(str(item["chat_id"]) for item in items if "#" not in str(item["chat_id"]))
        known = await self._stores.chats.counters(chat_ids)
        new = [chat_id for chat_id in chat_ids if chat_id not in known and chat_id not in met]
        met.update(new)
        return [partial(self.check_chat, chat_id) for chat_id in new]

    async def _scan(self, pattern: AccessPattern[Any]) -> AsyncIterator[list[Item]]:
        async for raw in pages(
            lambda start: self._stores.chats.scan(pattern, limit=PAGE, start=start), pace=Pace(ITEMS_PER_SECOND)
        ):
            yield [plain(each) for each in raw]

    async def _check_direct_claim(self, claim: Item) -> list[Problem]:
        chat_id = str(claim.get("direct_chat_id"))
        if await self._stores.chats.chats([chat_id]):
            return []
        detail = "A claim of two people leads to no chat: they cannot open one. Repair: delete the claim."
        return [
            in_chat(
                "direct_claim_dangling",
                chat_id,
                detail,
                repair=lambda stores: stores.chats.drop_direct_claim(claim),
            )
        ]

    async def _check_phone_claim(self, claim: Item) -> list[Problem]:
        owner_id = str(claim.get("owner_id"))
        return [] if await self._stores.users.users([owner_id]) else [dangling_phone_claim(claim)]

    # Reading

    async def _chat_facts(self, chat_id: str) -> ChatFacts:
        """The counter is read before the entries, for what must be there, and after, for what may be."""
        chats, now = self._stores.chats, self._clock.now()
        counter = (await chats.counters([chat_id])).get(chat_id)
        log = LogFacts(now=now)
        async for entries in self._stores.log.entries(ChatId(chat_id)):
            log.see(entries)
        async for keys in self._stores.log.keys(ChatId(chat_id)):
            log.see_keys(keys)
        chat = (await chats.chats([chat_id])).get(chat_id)
        members = await chats.members(ChatId(chat_id))
        user_ids = [str(each["user_id"]) for each in members]
        marks = await self._stores.marks.marks([(user_id, chat_id) for user_id in user_ids])
        claim_id = _claim_id(chat, user_ids)
        wrong_changes = await self._wrong_changes(chat_id, log)
        after = (await chats.counters([chat_id])).get(chat_id)
        lost = [await self._confirmed(chat_id, *gap) for gap in log.missing(_sequence(counter))]
        return ChatFacts(
            chat_id=chat_id,
            chat=chat,
            counter=counter,
            highest=_sequence(after),
            after=after,
            wrong_changes=wrong_changes,
            members=members,
            users=await self._stores.users.users(user_ids),
            marks=marks,
            claim_id=claim_id,
            claim=(await chats.chats([claim_id])).get(claim_id) if claim_id else None,
            log=log,
            lost=[gap for gaps in lost for gap in gaps],
            now=now,
        )

    async def _confirmed(self, chat_id: str, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of a gap that are missing when they are read once more: a query is no snapshot."""
        if last - first >= MAX_CONFIRMED:
            return [(first, last)]
        found = await self._stores.log.entries_at(ChatId(chat_id), range(first, last + 1))
        present = {int(entry["sequence"]) for entry in found}
        return list(_ranges(sequence for sequence in range(first, last + 1) if sequence not in present))

    async def _wrong_changes(self, chat_id: str, log: LogFacts) -> dict[int, int]:
        """Messages that tell of another last change than the entries do, read once more, with what they tell.

        One that changed while the entries were read tells of an entry behind those.
        """
        wrong: dict[int, int] = {}
        doubtful = log.doubtful
        for start in range(0, len(doubtful), PAGE):
            part = doubtful[start : start + PAGE]
            entries = await self._stores.log.entries_at(ChatId(chat_id), part)
            known = {int(entry["sequence"]): int(entry.get("last_change") or 0) for entry in entries}
            changes = {int(each["sequence"]): each for each in await self._changes_at(chat_id, known.values())}
            for sequence in part:
                change = changes.get(known.get(sequence, 0), {})
                is_newer = known.get(sequence, 0) > log.changes.get(sequence, 0) and change.get("target") == sequence
                if known.get(sequence, 0) != log.changes.get(sequence, 0) and not is_newer:
                    wrong[sequence] = known.get(sequence, 0)
        return wrong

    async def _changes_at(self, chat_id: str, sequences: Iterable[int]) -> list[Item]:
        return await self._stores.log.entries_at(ChatId(chat_id), {each for each in sequences if each})

    async def _user_facts(self, user_id: str) -> UserFacts:
        user = (await self._stores.users.users([user_id])).get(user_id)
        claim_id = f"{PHONE}{user.get('phone_number')}" if user is not None else None
        memberships = await self._stores.chats.memberships_of(user_id)
        chat_ids = [str(each["chat_id"]) for each in memberships]
        counters = await self._stores.chats.counters(chat_ids)
        others = await self._stores.chats.chats([each for each in chat_ids if each not in counters])
        return UserFacts(
            user_id=user_id,
            user=user,
            claim=(await self._stores.users.users([claim_id])).get(claim_id) if claim_id else None,
            memberships=memberships,
            chat_ids=counters.keys() | others.keys(),
            now=self._clock.now(),
        )


def _problems(checks: Iterable[Callable[[F], Iterable[Problem]]], facts: F) -> list[Problem]:
    return [problem for check in checks for problem in check(facts)]


def _sequence(counter: Item | None) -> int:
    return 0 if counter is None else int(counter.get("sequence_counter") or 0)


def _claim_id(chat: Item | None, user_ids: Sequence[str]) -> str | None:
    if chat is None or chat.get("chat_type") != ChatType.DIRECT or len(user_ids) != 2:
        return None
    return direct_claim_id(UserId(user_ids[0]), UserId(user_ids[1]))


def _ranges(sequences: Iterable[int]) -> Iterable[tuple[int, int]]:
    first = last = 0
    for sequence in sequences:
        if sequence == last + 1 and first:
            last = sequence
            continue
        if first:
            yield first, last
        first = last = sequence
    if first:
        yield first, last
