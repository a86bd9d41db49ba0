"""Writes batches of drafts, each in one transaction, and decides which need no read before (`batch_reader`).

Sequences are dense by construction: a counter moves from N to N+k only together with the k entries that it numbers,
on condition that it stood at N and that nobody has left the chat since its members were read. So drafts of remembered
members can skip the read (`may_skip_read`). Drafts that change what is stored are always read first, and folded
(`messaging.services.fold`) when the transaction is built.

What is remembered of a chat that other processes write is stale soon. So only chats whose home is this process skip
reads and share transactions (`may_share`); the others are read and committed by themselves.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from chats.domain import CounterState
from chats.services.changes import Changes
from chats.services.posting import Posting
from foundation.kernel.clock import Clock, to_iso
from foundation.kernel.errors import ParleyError
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import AsyncDatabase, Write
from foundation.stores.errors import (
    CancellationReason,
    StoreUnavailable,
    TransactionCancelled,
    TransactionConflict,
)
from messaging.domain import Draft, Message, Sent
from messaging.services import metrics
from messaging.services.failed_batches import FailedBatch, contention, failure_of, unanswered
from messaging.services.fold import Facts, Fold
from messaging.services.homes import Homes
from messaging.services.queues import Batch, PendingDraft
from messaging.stores.messages import INSERT_KEY, IdempotencyKeyStore, MessageStore

CACHED_CHATS = 20_000
MEMBER_TTL = 30.0
"""Seconds. Bounds how long a membership counts that was deleted without a departure, by hand or by an old version."""
CAUTIOUS_FOR = 2.0
"""Seconds without skipped reads after a repeated message: after an outage most clients repeat theirs."""
CONTENDED_FOR = 3.0
"""Seconds in which a chat shares nothing after another process wrote to it at the same time."""
CONTENDED_CHATS = 10_000


@dataclass(slots=True)
class WriteResult:
    """What became of each draft; or the batches that made the transaction fail, and the unaffected others."""

    committed: list[Batch] = field(default_factory=list)
    answered: list[tuple[PendingDraft, Sent]] = field(default_factory=list)
    refused: list[tuple[PendingDraft, ParleyError]] = field(default_factory=list)
    failed: list[FailedBatch] = field(default_factory=list)
    unaffected: list[Batch] = field(default_factory=list)


@dataclass(slots=True)
class _Part:
    """A chat's part of a transaction: from one counter to the next, with the entries in between."""

    batch: Batch
    current: CounterState
    after: CounterState
    entries: Sequence[tuple[PendingDraft, Message]]
    writes: Sequence[Write] = ()
    fold: Fold | None = None


@dataclass(slots=True)
class _Chat:
    counter: CounterState
    members: set[UserId] = field(default_factory=set)
    fresh_until: float = 0.0


class MembershipCache:
    """Remembers chats: their counters, and who was a member when that was read.

    Entries may be stale. Every transaction checks them: the counter's condition fails when the sequence has moved, or
    when anybody has left the chat (ADR-019). So a draft of a remembered member needs no read.
    """

    def __init__(self, *, monotonic: Callable[[], float], capacity: int = CACHED_CHATS) -> None:
        self._monotonic = monotonic
        self._capacity = capacity
        self._chats: OrderedDict[ChatId, _Chat] = OrderedDict()

    def find_counter(self, chat_id: ChatId) -> CounterState | None:
        chat = self._chats.get(chat_id)
        return None if chat is None else chat.counter

    def remember_counter(self, chat_id: ChatId, counter: CounterState) -> None:
        """A counter that was just read. Members in the same read are not remembered: they may be older than it."""
        self._chats[chat_id] = _Chat(counter)
        if len(self._chats) > self._capacity:
            self._chats.popitem(last=False)

    def advance(self, chat_id: ChatId, counter: CounterState) -> None:
        """This process's own write moved the counter."""
        chat = self._chats.get(chat_id)
        if chat is not None:
            chat.counter = counter
            self._chats.move_to_end(chat_id)

    def remember_member(self, chat_id: ChatId, user_id: UserId, *, departures: int) -> None:
        """A member who was read while the count of departures was known to be this."""
        chat = self._chats.get(chat_id)
        if chat is None or chat.counter.departures != departures:
            return
        now = self._monotonic()
        if chat.fresh_until <= now:
            chat.members, chat.fresh_until = set(), now + MEMBER_TTL
        chat.members.add(user_id)

    def is_fresh(self, chat_id: ChatId, user_id: UserId) -> bool:
        """Whether the user was read as a member within the TTL."""
        chat = self._chats.get(chat_id)
        return chat is not None and user_id in chat.members and self._monotonic() < chat.fresh_until

    def must_read_counter(self, draft: Draft) -> bool:
        """Whether the draft could be refused because of the remembered counter: it is read instead."""
        if not draft.is_folded:
            return False
        counter = self.find_counter(draft.chat_id)
        return draft.may_change_members or (draft.reply_to or 0) > (0 if counter is None else counter.sequence)

    def forget(self, chat_id: ChatId) -> None:
        self._chats.pop(chat_id, None)

    def forget_all(self) -> None:
        self._chats.clear()


class ContendedChats:
    """The chats that another process has written at the same time as this one, for a while.

    A cancelled transaction makes a chat a suspect; the read before its retry tells whether the sequence has moved.
    """

    def __init__(self, *, monotonic: Callable[[], float], capacity: int = CONTENDED_CHATS) -> None:
        self._monotonic = monotonic
        self._capacity = capacity
        self._suspects: OrderedDict[ChatId, int] = OrderedDict()
        self._until: OrderedDict[ChatId, float] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._until)

    def __contains__(self, chat_id: ChatId) -> bool:
        until = self._until.get(chat_id)
        if until is None or self._monotonic() < until:
            return until is not None
        del self._until[chat_id]
        return False

    def suspect(self, chat_id: ChatId, sequence: int) -> None:
        """A transaction that expected this sequence was cancelled."""
        self._suspects[chat_id] = sequence
        if len(self._suspects) > self._capacity:
            self._suspects.popitem(last=False)

    def check(self, chat_id: ChatId, sequence: int) -> None:
        """The chat's sequence was read."""
        if self._suspects and self._suspects.pop(chat_id, sequence) != sequence:
            self._until[chat_id] = self._monotonic() + CONTENDED_FOR
            self._until.move_to_end(chat_id)
            if len(self._until) > self._capacity:
                self._until.popitem(last=False)


@dataclass(frozen=True, slots=True)
class IngestStores:
    """Where batches are read from and written to."""

    database: AsyncDatabase
    posting: Posting
    changes: Changes
    messages: MessageStore
    keys: IdempotencyKeyStore


class Ingest:
    """Writes batches on one event loop, and remembers chats. A chat is in one write at a time."""

    def __init__(
        self,
        stores: IngestStores,
        *,
        clock: Clock,
        homes: Homes | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = stores.database
        self._posting = stores.posting
        self._changes = stores.changes
        self._messages = stores.messages
        self._keys = stores.keys
        self._clock = clock
        self._homes = homes or Homes()
        self._monotonic = monotonic
        self.cache = MembershipCache(monotonic=monotonic)
        self.contended = ContendedChats(monotonic=monotonic)
        self._cautious_until = 0.0

    def may_share(self, chat_id: ChatId) -> bool:
        """Whether the chat may skip reads and share transactions: no other process writes to it, as far as we know."""
        return (self._homes.is_alone or self._homes.is_home(chat_id)) and not (
            self.contended and chat_id in self.contended
        )

    def forget_all(self) -> None:
        """Forget every counter and member: other processes may have written to the chats."""
        self.cache.forget_all()

    def may_skip_read(self, pending: PendingDraft) -> bool:
        """Whether the draft may be written without a read. The transaction fails if that was wrong.

        A repeated message makes it fail too, which costs everybody in it a second transaction. So retried drafts are
        read, and for a while after a repetition every draft is.
        """
        draft = pending.draft
        return (
            pending.attempts == 0
            and not draft.needs_read
            and self.cache.is_fresh(draft.chat_id, draft.sender_id)
            and not self.cache.must_read_counter(draft)
            and self._monotonic() >= self._cautious_until
        )

    async def write(self, batches: Sequence[Batch]) -> WriteResult:
        """One transaction for all batches."""
        known = [(batch, self._find_counter(batch)) for batch in batches]
        ready = [(batch, counter) for batch, counter in known if counter is not None]
        if len(ready) < len(batches):
            return WriteResult(
                failed=[contention(batch, "counter_unknown") for batch, counter in known if not counter],
                unaffected=[batch for batch, _ in ready],
            )
        now = self._clock.now()
        parts = [self._part(batch, counter, now) for batch, counter in ready]
        writes, owners = self._writes([part for part in parts if part.entries], now)
        try:
            if writes:
                await self._database.transact_once(writes)
        except TransactionCancelled as error:
            result = self._split_cancelled(ready, writes, owners, error.reasons)
            metrics.CANCELLED.labels(result.failed[0].reason).inc()
            return result
        except TransactionConflict:
            metrics.CANCELLED.labels("conflict").inc()
            return self._fail_all([contention(batch, "conflict") for batch in batches])
        except StoreUnavailable as error:
            # The transaction may have been written: the retry reads the keys first.
            return self._fail_all([unanswered(batch, error) for batch in batches])
        except ParleyError as error:
            return self._fail_all([FailedBatch(batch, "refused", error, permanent=True) for batch in batches])
        result = WriteResult(committed=list(batches))
        for part in parts:
            self._finish(part, result)
        return result

    def _find_counter(self, batch: Batch) -> CounterState | None:
        """The remembered counter; None, and forgotten, if an entry beyond it was read since."""
        counter, facts = self.cache.find_counter(batch.chat_id), batch.queue.facts
        if counter is not None and facts is not None and max(facts.entries, default=0) > counter.sequence:
            self.cache.forget(batch.chat_id)
            return None
        return counter

    def _part(self, batch: Batch, counter: CounterState, now: datetime) -> _Part:
        """Number the drafts. Only those that depend on the chat as it stands are folded."""
        if not any(pending.draft.is_folded for pending in batch.drafts):
            entries = _number(batch, counter, now)
            return _Part(batch, counter, replace(counter, sequence=entries[-1][1].sequence), entries)
        fold = Fold(batch.queue.facts or Facts(), counter, now=now, changes=self._changes)
        for pending in batch.drafts:
            fold.apply(pending)
        return _Part(batch, counter, fold.counter, fold.stored, fold.writes(self._messages), fold)

    def _finish(self, part: _Part, result: WriteResult) -> None:
        """The part is committed: remember where its chat stands, and answer its drafts."""
        chat_id, last = part.batch.chat_id, part.batch.drafts[-1].draft
        if last.may_change_members:
            self.cache.forget(chat_id)
        else:
            self.cache.advance(chat_id, part.after)
        result.answered += [(pending, Sent(entry, duplicate=False)) for pending, entry in part.entries]
        if part.fold is not None:
            part.batch.queue.facts = part.fold.facts_after()
            result.answered += part.fold.answered
            result.refused += part.fold.refused

    def _writes(self, parts: Sequence[_Part], now: datetime) -> tuple[list[Write], list[Batch]]:
        """The transaction's items, and the batch that each belongs to.

        Ordered by table: the embedded engine writes items of one table together, and DynamoDB accepts any order.
        """
        counters: list[tuple[Write, Batch]] = []
        keys: list[tuple[Write, Batch]] = []
        puts: list[tuple[Write, Batch]] = []
        for part in parts:
            batch = part.batch
            move = self._posting.moving_counter(batch.chat_id, current=part.current, after=part.after, now=now)
            counters.append((move, batch))
            keys += (
                (self._keys.inserting(entry, digest=pending.draft.digest, now=now), batch)
                for pending, entry in part.entries
            )
            puts += ((self._messages.storing(entry), batch) for _, entry in part.entries)
            puts += ((write, batch) for write in part.writes)
        everything = counters + keys + puts
        return [write for write, _ in everything], [batch for _, batch in everything]

    def _split_cancelled(
        self,
        tried: Sequence[tuple[Batch, CounterState]],
        writes: Sequence[Write],
        owners: Sequence[Batch],
        reasons: Sequence[CancellationReason | None],
    ) -> WriteResult:
        """The chats that the reasons name are retried; the others can be committed again at once.

        A chat whose counter is remembered differently by now is retried too: a member may have left.
        """
        failed: dict[ChatId, FailedBatch] = {}
        if len(reasons) == len(writes):
            for write, owner, reason in zip(writes, owners, reasons, strict=True):
                if reason is not None and owner.chat_id not in failed:
                    failed[owner.chat_id] = failure_of(owner, write, reason)
                if reason is not None and reason.is_condition and write.pattern is INSERT_KEY:
                    self._cautious_until = self._monotonic() + CAUTIOUS_FOR
        if not failed:
            return self._fail_all([contention(batch, "conflict") for batch, _ in tried])
        for batch, counter in tried:
            if self.cache.find_counter(batch.chat_id) != counter:
                failed.setdefault(batch.chat_id, contention(batch, "counter_unknown"))
        return self._fail_all(failed.values(), unaffected=[batch for batch, _ in tried if batch.chat_id not in failed])

    def _fail_all(self, failed: Iterable[FailedBatch], *, unaffected: Sequence[Batch] = ()) -> WriteResult:
        """Forget what is remembered of the failed chats."""
        result = WriteResult(failed=list(failed), unaffected=list(unaffected))
        for failure in result.failed:
            chat_id = failure.batch.chat_id
            if failure.contended and (counter := self.cache.find_counter(chat_id)) is not None:
                self.contended.suspect(chat_id, counter.sequence)
            self.cache.forget(chat_id)
        return result


def _number(batch: Batch, counter: CounterState, now: datetime) -> list[tuple[PendingDraft, Message]]:
    created_at = to_iso(now)
    return [
        (
            pending,
            Message(
                message_id=pending.message_id,
                chat_id=batch.chat_id,
                sequence=sequence,
                sender_id=pending.draft.sender_id,
                client_message_id=pending.draft.client_message_id,
                content=pending.draft.content,
                content_type=pending.draft.content_type,
                created_at=created_at,
                others=counter.others,
                mentions=pending.draft.mentions,
            ),
        )
        for sequence, pending in enumerate(batch.drafts, start=counter.sequence + 1)
    ]
