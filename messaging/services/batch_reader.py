"""Reads what decides over a batch of drafts: memberships, idempotency keys, counters, and what changes depend on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, takewhile
from typing import Any

from chats.domain import CommandType, CounterState
from chats.errors import ChatNotFound
from foundation.kernel.clock import Clock
from foundation.kernel.errors import ParleyError
from foundation.kernel.ids import ChatId, UserId, is_user_id
from foundation.stores.dynamodb import AccessPattern, BatchResult, Key
from messaging.domain import Kind, Message, Sent
from messaging.errors import ClientMessageIdConflict
from messaging.services.fold import Facts, answer_lost
from messaging.services.ingest import Ingest, IngestStores
from messaging.services.queues import GUEST, Batch, PendingDraft
from messaging.stores.messages import EntryKey, StoredKey


@dataclass(slots=True)
class ReadResult:
    """Which drafts may be written, and which have an answer already. `facts` are for those that are folded."""

    facts: dict[ChatId, Facts] = field(default_factory=dict)
    writable: dict[ChatId, list[PendingDraft]] = field(default_factory=dict)
    stored: list[tuple[PendingDraft, Sent]] = field(default_factory=list)
    refused: list[tuple[PendingDraft, ParleyError]] = field(default_factory=list)


class BatchReader:
    """Reads for drafts that may not skip it. What it reads is remembered for the writes of `ingest`."""

    def __init__(self, stores: IngestStores, ingest: Ingest, *, clock: Clock) -> None:
        self._database = stores.database
        self._posting = stores.posting
        self._changes = stores.changes
        self._messages = stores.messages
        self._keys = stores.keys
        self._cache = ingest.cache
        self._contended = ingest.contended
        self._clock = clock

    async def read(self, batches: Sequence[Batch], *, fresh: bool = False) -> ReadResult:
        """One strongly consistent read of memberships, idempotency keys and the counters not remembered.

        For drafts that are folded it also reads what they depend on, for drafts that were tried the keys of those tried
        behind them. A second one reads the entries of the keys that exist. `fresh` reads all counters. Raises
        `StoreUnavailable`.
        """
        for batch in batches:
            if fresh or any(self._cache.must_read_counter(pending.draft) for pending in batch.drafts):
                self._cache.forget(batch.chat_id)
        drafts = [pending for batch in batches for pending in batch.drafts]
        behind = [pending for batch in batches for pending in _tried_behind(batch)]
        folded = [pending for pending in drafts if pending.draft.needs_read]
        pairs = {(pending.draft.chat_id, pending.draft.sender_id) for pending in drafts}
        before = {batch.chat_id: self._cache.find_counter(batch.chat_id) for batch in batches}
        unknown = [chat_id for chat_id, counter in before.items() if counter is None]
        found = await self._database.batch_get(
            {
                **self._posting.membership_lookup(pairs | _people_of(folded)),
                **self._keys.lookup(
                    {(each.draft.chat_id, each.draft.client_message_id) for each in chain(drafts, behind)}
                ),
                **(self._posting.counter_lookup(unknown) if unknown else {}),
                **self._dependencies_of(folded),
            }
        )
        counters = self._posting.counter_states_among(found)
        for chat_id, counter in counters.items():
            self._cache.remember_counter(chat_id, counter)
            self._contended.check(chat_id, counter.sequence)
        members = self._posting.members_among(found, pairs)
        self._remember_members(members, before)
        missing = set(unknown) - counters.keys()
        result = await self._classify(
            drafts,
            behind,
            allowed={
                (chat_id, sender_id)
                for chat_id, sender_id in members | {_sender(each) for each in folded if each.draft.by_staff}
                if chat_id not in missing
            },
            keys=self._keys.found_in(found, now=self._clock.now()),
        )
        if folded:
            result.facts = await self._facts(folded, found)
        return result

    def _dependencies_of(self, folded: Sequence[PendingDraft]) -> dict[AccessPattern[Any], list[Key]]:
        """The keys of the targets, and of the chats that pins and commands depend on."""
        targets = {(pending.draft.chat_id, pending.draft.target) for pending in folded if pending.draft.target}
        chats = {pending.draft.chat_id for pending in folded if pending.draft.extra_items}
        return {
            **(self._messages.lookup(targets) if targets else {}),
            **(self._posting.chat_lookup(chats) if chats else {}),
        }

    async def _facts(self, folded: Sequence[PendingDraft], found: BatchResult) -> dict[ChatId, Facts]:
        """What the drafts of each chat depend on. Reads the deletions of deleted targets, and counts older chats."""
        entries = self._messages.found_in(found)
        deleted = {
            (pending.draft.chat_id, target.last_change or 0)
            for pending in folded
            if pending.draft.kind is Kind.DELETION
            and (target := entries.get((pending.draft.chat_id, pending.draft.target or 0))) is not None
            and target.deleted_at is not None
        }
        if deleted:
            entries |= await self._messages.find_at(deleted)
        chats, memberships = self._posting.chats_among(found), self._posting.memberships_among(found)
        return {
            chat_id: Facts(
                entries={sequence: entry for (chat, sequence), entry in entries.items() if chat == chat_id},
                memberships={user: membership for (chat, user), membership in memberships.items() if chat == chat_id},
                chat=chats.get(chat_id),
                members=await self._members_of(chat_id, folded),
            )
            for chat_id in {pending.draft.chat_id for pending in folded}
        }

    async def _members_of(self, chat_id: ChatId, folded: Sequence[PendingDraft]) -> int | None:
        """How many members the chat has; None in an older chat, unless a draft adds one. Then they are counted."""
        counter = self._cache.find_counter(chat_id)
        if counter is None or counter.members is not None:
            return None if counter is None else counter.members
        adds = any(
            pending.draft.command is not None
            and pending.draft.chat_id == chat_id
            and pending.draft.command.type is CommandType.ADD
            for pending in folded
        )
        return await self._changes.count_members(chat_id) if adds else None

    def _remember_members(
        self, members: set[tuple[ChatId, UserId]], before: Mapping[ChatId, CounterState | None]
    ) -> None:
        for chat_id, user_id in members:
            counter = before[chat_id]
            if counter is not None:
                self._cache.remember_member(chat_id, user_id, departures=counter.departures)

    async def _classify(
        self,
        drafts: Sequence[PendingDraft],
        behind: Sequence[PendingDraft],
        *,
        allowed: set[tuple[ChatId, str]],
        keys: Mapping[tuple[ChatId, str], StoredKey],
    ) -> ReadResult:
        result = ReadResult()
        repeated: list[tuple[PendingDraft, StoredKey]] = []
        overtaken: dict[PendingDraft, None] = {}
        for pending in drafts:
            draft = pending.draft
            key = keys.get((draft.chat_id, draft.client_message_id))
            # Our own write, whose answer was lost: it counts also if its sender is no member any more.
            is_stored = key is not None and key.message_id == pending.message_id
            if not is_stored and (draft.chat_id, draft.sender_id) not in allowed:
                result.refused.append((pending, ChatNotFound()))
            elif key is None:
                result.writable.setdefault(draft.chat_id, []).append(pending)
            else:
                if is_stored:
                    overtaken |= dict.fromkeys(_overtaken_by(pending, result))
                repeated.append((pending, key))
        for pending in behind:
            key = keys.get((pending.draft.chat_id, pending.draft.client_message_id))
            if key is not None and key.message_id == pending.message_id:
                overtaken |= dict.fromkeys(_overtaken_by(pending, result))
        if overtaken:
            repeated += await self._look_again(list(overtaken), result)
        if repeated:
            await self._compare(repeated, result)
        return result

    async def _look_again(
        self, overtaken: Sequence[PendingDraft], result: ReadResult
    ) -> list[tuple[PendingDraft, StoredKey]]:
        """Those that are stored, with their keys: the first read was no snapshot. The others are not to be stored.

        Whoever stored the later draft has refused them or found nothing to change, and the answers were lost.
        """
        places = {(each.draft.chat_id, each.draft.client_message_id) for each in overtaken}
        keys = self._keys.found_in(await self._database.batch_get(self._keys.lookup(places)), now=self._clock.now())
        stored = []
        for pending in overtaken:
            key = keys.get((pending.draft.chat_id, pending.draft.client_message_id))
            if key is None and pending.draft.needs_read:
                pending.is_overtaken = True
                continue
            result.writable[pending.draft.chat_id].remove(pending)
            if key is not None:
                stored.append((pending, key))
            else:
                result.refused.append((pending, answer_lost()))
        return stored

    async def _compare(self, repeated: Sequence[tuple[PendingDraft, StoredKey]], result: ReadResult) -> None:
        """Compare each draft with what its key stands for, and answer with the entry as it stands."""
        found = await self._messages.find_at({_place(pending, key) for pending, key in repeated})
        filled = await self._messages.filled(list(found.values()))
        messages = {(message.chat_id, message.sequence): message for message in filled}
        for pending, key in repeated:
            message = messages.get(_place(pending, key))
            if message is not None and _is_repeated(pending, key, message):
                # With the draft's own message id it is no duplicate: the answer to our own write was lost.
                result.stored.append((pending, Sent(message, duplicate=key.message_id != pending.message_id)))
            else:
                result.refused.append((pending, ClientMessageIdConflict()))


def _tried_behind(batch: Batch) -> Iterable[PendingDraft]:
    """The drafts behind a batch that were tried together with it: another process may have stored them."""
    if not batch.drafts[-1].attempts:
        return ()
    return takewhile(lambda pending: pending.attempts > 0, batch.queue.queued)


def _overtaken_by(stored: PendingDraft, result: ReadResult) -> list[PendingDraft]:
    """What its sender sent before and was tried, and would now be stored behind it.

    Drafts of other processes are in order there: here one may be behind another that it does not follow.
    """
    if stored.path is GUEST:
        return []
    return [
        pending
        for pending in result.writable.get(stored.draft.chat_id, ())
        if pending.attempts and pending.path is not GUEST and pending.draft.sender_id == stored.draft.sender_id
    ]


def _is_repeated(pending: PendingDraft, key: StoredKey, message: Message) -> bool:
    """Whether the draft is what the key was stored for, also where the message has been changed since."""
    return pending.draft.is_same_as(message) if key.digest is None else pending.draft.digest == key.digest


def _people_of(folded: Sequence[PendingDraft]) -> set[tuple[ChatId, UserId]]:
    """The memberships that commands are about."""
    return {
        (pending.draft.chat_id, user_id)
        for pending in folded
        if (command := pending.draft.command) is not None
        and (user_id := command.user_id) is not None
        and is_user_id(user_id)
    }


def _sender(pending: PendingDraft) -> tuple[ChatId, UserId]:
    return pending.draft.chat_id, pending.draft.sender_id


def _place(pending: PendingDraft, key: StoredKey) -> EntryKey:
    return pending.draft.chat_id, key.sequence
