"""Reads what decides over a batch of drafts, then writes the batch in one transaction.

Sequences are dense by construction: a counter moves from N to N+k only together with the k messages that it numbers,
on condition that it stood at N and that nobody has left the chat since its members were read. So drafts of remembered
members can skip the read (`may_skip_read`).
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from chats.domain import CounterState
from chats.errors import ChatNotFound
from chats.services.posting import Posting
from foundation.kernel.clock import Clock, to_iso
from foundation.kernel.errors import ParleyError
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.dynamodb import AsyncDatabase, Write
from foundation.stores.errors import (
    CancellationReason,
    StoreRefused,
    StoreUnavailable,
    Throttled,
    TransactionCancelled,
    TransactionConflict,
)
from messaging.domain import Message, Sent
from messaging.errors import ClientMessageIdConflict
from messaging.services.queues import Batch, PendingDraft
from messaging.stores.messages import INSERT_KEY, IdempotencyKeyStore, MessageStore, Place, StoredKey

CACHED_CHATS = 20_000
MEMBER_TTL = 30.0
"""Seconds. Bounds how long a membership counts that was deleted without a departure, by hand or by an old version."""
CAUTIOUS_FOR = 2.0
"""Seconds without skipped reads after a repeated message: after an outage most clients repeat theirs."""


@dataclass(slots=True)
class ReadResult:
    """Which drafts may be written, and which have an answer already."""

    writable: dict[ChatId, list[PendingDraft]] = field(default_factory=dict)
    stored: list[tuple[PendingDraft, Sent]] = field(default_factory=list)
    refused: list[tuple[PendingDraft, ParleyError]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FailedBatch:
    """A chat that could not be written this time. `error` is for the senders once the retries are used up."""

    batch: Batch
    reason: str
    error: ParleyError
    permanent: bool = False


@dataclass(slots=True)
class WriteResult:
    """The messages of each batch; or the batches that made the transaction fail, and the unaffected others."""

    stored: list[tuple[Batch, list[Message]]] = field(default_factory=list)
    failed: list[FailedBatch] = field(default_factory=list)
    unaffected: list[Batch] = field(default_factory=list)


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

    def advance(self, chat_id: ChatId, sequence: int) -> None:
        """This process's own write moved the counter."""
        chat = self._chats.get(chat_id)
        if chat is not None:
            chat.counter = CounterState(sequence, chat.counter.departures)
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

    def forget(self, chat_id: ChatId) -> None:
        self._chats.pop(chat_id, None)


class Ingest:
    """Reads and writes batches on one event loop. A chat is in one write at a time."""

    def __init__(
        self,
        *,
        database: AsyncDatabase,
        posting: Posting,
        messages: MessageStore,
        keys: IdempotencyKeyStore,
        clock: Clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._posting = posting
        self._messages = messages
        self._keys = keys
        self._clock = clock
        self._monotonic = monotonic
        self._cache = MembershipCache(monotonic=monotonic)
        self._cautious_until = 0.0

    def may_skip_read(self, pending: PendingDraft) -> bool:
        """Whether the draft may be written without a read. The transaction fails if that was wrong.

        A repeated message makes it fail too, which costs everybody in it a second transaction. So retried drafts are
        read, and for a while after a repetition every draft is.
        """
        draft = pending.draft
        return (
            pending.attempts == 0
            and self._cache.is_fresh(draft.chat_id, draft.sender_id)
            and self._monotonic() >= self._cautious_until
        )

    async def read(self, batches: Sequence[Batch]) -> ReadResult:
        """One strongly consistent read of memberships, idempotency keys and the counters not remembered.

        A second one reads the messages of the keys that exist. Raises `StoreUnavailable`.
        """
        drafts = [pending for batch in batches for pending in batch.drafts]
        pairs = {(pending.draft.chat_id, pending.draft.sender_id) for pending in drafts}
        before = {batch.chat_id: self._cache.find_counter(batch.chat_id) for batch in batches}
        unknown = [chat_id for chat_id, counter in before.items() if counter is None]
        found = await self._database.batch_get(
            {
                **self._posting.membership_lookup(pairs),
                **self._keys.lookup({(pending.draft.chat_id, pending.draft.client_message_id) for pending in drafts}),
                **(self._posting.counter_lookup(unknown) if unknown else {}),
            }
        )
        counters = self._posting.counter_states_among(found)
        for chat_id, counter in counters.items():
            self._cache.remember_counter(chat_id, counter)
        members = self._posting.members_among(found, pairs)
        self._remember_members(members, before)
        missing = set(unknown) - counters.keys()
        return await self._classify(
            drafts,
            allowed={pair for pair in members if pair[0] not in missing},
            keys=self._keys.found_in(found, now=self._clock.now()),
        )

    def _remember_members(
        self, members: set[tuple[ChatId, UserId]], before: Mapping[ChatId, CounterState | None]
    ) -> None:
        for chat_id, user_id in members:
            counter = before[chat_id]
            if counter is not None:
                self._cache.remember_member(chat_id, user_id, departures=counter.departures)

    async def write(self, batches: Sequence[Batch]) -> WriteResult:
        """One transaction for all batches."""
        known = [(batch, self._cache.find_counter(batch.chat_id)) for batch in batches]
        ready = [(batch, counter) for batch, counter in known if counter is not None]
        if len(ready) < len(batches):
            return WriteResult(
                failed=[FailedBatch(batch, "counter_unknown", _conflict()) for batch, counter in known if not counter],
                unaffected=[batch for batch, _ in ready],
            )
        now = self._clock.now()
        numbered = [(batch, _number(batch, counter.sequence, now)) for batch, counter in ready]
        writes, owners = self._writes(ready, numbered, now)
        try:
            await self._database.transact_once(writes)
        except TransactionCancelled as error:
            return self._split_cancelled(ready, writes, owners, error.reasons)
        except StoreUnavailable as error:
            # The transaction may have been written: the retry reads the keys first.
            return self._fail_all(batches, _reason_of(error), error)
        except ParleyError as error:
            return self._fail_all(batches, "refused", error, permanent=True)
        for batch, messages in numbered:
            self._cache.advance(batch.chat_id, messages[-1].sequence)
        return WriteResult(stored=numbered)

    async def _classify(
        self,
        drafts: Sequence[PendingDraft],
        *,
        allowed: set[tuple[ChatId, str]],
        keys: Mapping[tuple[ChatId, str], StoredKey],
    ) -> ReadResult:
        result = ReadResult()
        repeated: list[tuple[PendingDraft, StoredKey]] = []
        for pending in drafts:
            draft = pending.draft
            key = keys.get((draft.chat_id, draft.client_message_id))
            if (draft.chat_id, draft.sender_id) not in allowed:
                result.refused.append((pending, ChatNotFound()))
            elif key is None:
                result.writable.setdefault(draft.chat_id, []).append(pending)
            else:
                repeated.append((pending, key))
        if repeated:
            await self._compare(repeated, result)
        return result

    async def _compare(self, repeated: Sequence[tuple[PendingDraft, StoredKey]], result: ReadResult) -> None:
        """Compare each draft with the message that its key stands for."""
        messages = await self._messages.find_at({_place(pending, key) for pending, key in repeated})
        for pending, key in repeated:
            message = messages.get(_place(pending, key))
            if message is not None and pending.draft.is_same_as(message):
                # With the draft's own message id it is no duplicate: the answer to our own write was lost.
                result.stored.append((pending, Sent(message, duplicate=key.message_id != pending.message_id)))
            else:
                result.refused.append((pending, ClientMessageIdConflict()))

    def _writes(
        self,
        ready: Sequence[tuple[Batch, CounterState]],
        numbered: Sequence[tuple[Batch, list[Message]]],
        now: datetime,
    ) -> tuple[list[Write], list[Batch]]:
        """The transaction's items, and the batch that each belongs to.

        Ordered by table: the embedded engine writes items of one table together, and DynamoDB accepts any order.
        """
        counters: list[tuple[Write, Batch]] = []
        keys: list[tuple[Write, Batch]] = []
        puts: list[tuple[Write, Batch]] = []
        for (batch, current), (_, messages) in zip(ready, numbered, strict=True):
            move = self._posting.moving_counter(batch.chat_id, current=current, added=len(messages), now=now)
            counters.append((move, batch))
            keys += ((self._keys.inserting(message, now=now), batch) for message in messages)
            puts += ((self._messages.storing(message), batch) for message in messages)
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
                    failed[owner.chat_id] = _failure(owner, write, reason)
                if reason is not None and reason.is_condition and write.pattern is INSERT_KEY:
                    self._cautious_until = self._monotonic() + CAUTIOUS_FOR
        if not failed:
            return self._fail_all([batch for batch, _ in tried], "conflict", _conflict())
        for batch, counter in tried:
            if self._cache.find_counter(batch.chat_id) != counter:
                failed.setdefault(batch.chat_id, FailedBatch(batch, "counter_unknown", _conflict()))
        for chat_id in failed:
            self._cache.forget(chat_id)
        unaffected = [batch for batch, _ in tried if batch.chat_id not in failed]
        return WriteResult(failed=list(failed.values()), unaffected=unaffected)

    def _fail_all(
        self, batches: Sequence[Batch], reason: str, error: ParleyError, *, permanent: bool = False
    ) -> WriteResult:
        for batch in batches:
            self._cache.forget(batch.chat_id)
        return WriteResult(failed=[FailedBatch(batch, reason, error, permanent=permanent) for batch in batches])


def _conflict() -> TransactionConflict:
    return TransactionConflict("Others kept writing to this chat")


def _failure(batch: Batch, write: Write, reason: CancellationReason) -> FailedBatch:
    if reason.is_condition:
        return FailedBatch(batch, f"{write.pattern.table}_condition", _conflict())
    if reason.code == "TransactionConflict":
        return FailedBatch(batch, "conflict", _conflict())
    if reason.is_transient:
        return FailedBatch(batch, "throttled", Throttled("DynamoDB is over capacity"))
    return FailedBatch(batch, "refused", StoreRefused(f"DynamoDB cancelled the write: {reason.code}"), permanent=True)


def _reason_of(error: StoreUnavailable) -> str:
    if isinstance(error, TransactionConflict):
        return "conflict"
    return "throttled" if isinstance(error, Throttled) else "unavailable"


def _number(batch: Batch, current: int, now: datetime) -> list[Message]:
    created_at = to_iso(now)
    return [
        Message(
            message_id=pending.message_id,
            chat_id=batch.chat_id,
            sequence=sequence,
            sender_id=pending.draft.sender_id,
            client_message_id=pending.draft.client_message_id,
            content=pending.draft.content,
            content_type=pending.draft.content_type,
            created_at=created_at,
        )
        for sequence, pending in enumerate(batch.drafts, start=current + 1)
    ]


def _place(pending: PendingDraft, key: StoredKey) -> Place:
    return pending.draft.chat_id, key.sequence
