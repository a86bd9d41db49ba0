"""The queues of drafts: one per chat, served in turn.

Within a chat, drafts are read, committed and answered in order of arrival; drafts of known members skip the read.
Between chats the service is round-robin, a few drafts a turn, so a hot chat fills a transaction only where others
leave room. Pure bookkeeping: no I/O. Not thread-safe.
"""

import asyncio
import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from foundation.kernel.ids import ChatId, MessageId
from foundation.stores.dynamodb.async_database import TRANSACTION_ITEMS
from messaging.domain import Draft, Sent

COUNTER_ITEMS = 1
MESSAGE_ITEMS = 2
DRAFTS_PER_TURN = 8
# As many drafts of one chat as a transaction can hold.
FULL_BATCH = (TRANSACTION_ITEMS - COUNTER_ITEMS) // MESSAGE_ITEMS


@dataclass(slots=True, eq=False)
class PendingDraft:
    """A draft without an answer yet.

    The message id survives every retry: an idempotency key in the store that holds it was written for this draft.
    `repeats` are later sends of the same id by the same sender; they share the answer.
    """

    draft: Draft
    message_id: MessageId
    arrived: float
    future: "asyncio.Future[Sent]"
    attempts: int = 0
    repeats: list["PendingDraft"] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class ChatQueue:
    """A chat's drafts by stage. Committing, then verified, then reading, then queued: the order of arrival.

    `epoch` grows with every retry: the result of a read that began in an earlier epoch is discarded.
    """

    chat_id: ChatId
    committing: list[PendingDraft] = field(default_factory=list)
    verified: deque[PendingDraft] = field(default_factory=deque)
    reading: list[PendingDraft] = field(default_factory=list)
    queued: deque[PendingDraft] = field(default_factory=deque)
    epoch: int = 0
    backing_off: bool = False
    alone: bool = False

    @property
    def is_readable(self) -> bool:
        """While the chat is being written, drafts gather until they would fill a transaction of their own."""
        if not self.queued or self.reading or self.verified or self.backing_off:
            return False
        return not self.committing or len(self.queued) >= FULL_BATCH

    @property
    def is_committable(self) -> bool:
        return bool(self.verified) and not self.committing

    @property
    def is_empty(self) -> bool:
        return not (self.queued or self.reading or self.verified or self.committing)


@dataclass(frozen=True, slots=True)
class Batch:
    """One chat's share of a read or of a transaction."""

    queue: ChatQueue
    drafts: Sequence[PendingDraft]
    epoch: int

    @property
    def chat_id(self) -> ChatId:
        return self.queue.chat_id


class ChatQueues:
    """All chats with pending drafts. `may_skip_read` tells which drafts can be committed without a read."""

    def __init__(self, *, may_skip_read: Callable[[PendingDraft], bool] = lambda _pending: False) -> None:
        self._may_skip_read = may_skip_read
        self._queues: dict[ChatId, ChatQueue] = {}
        self._by_key: dict[tuple[ChatId, str], PendingDraft] = {}
        self._readable: OrderedDict[ChatId, ChatQueue] = OrderedDict()
        self._committable: OrderedDict[ChatId, ChatQueue] = OrderedDict()
        # The committable chats whose drafts have been read.
        self._read: set[ChatId] = set()
        self._backing_off: list[tuple[float, int, ChatQueue]] = []
        self._retries = 0

    def add(self, pending: PendingDraft) -> None:
        """Queue a draft, or attach it to the pending one with the same id and sender."""
        draft = pending.draft
        first = self._by_key.setdefault((draft.chat_id, draft.client_message_id), pending)
        if first is not pending and first.draft.sender_id == draft.sender_id:
            first.repeats.append(pending)
            return
        queue = self._queues.get(draft.chat_id)
        if queue is None:
            queue = self._queues[draft.chat_id] = ChatQueue(draft.chat_id)
        queue.queued.append(pending)
        self._update(queue)

    def start_reading(self, now: float) -> list[Batch]:
        """The next batches to read; none while batches that were read wait for a transaction.

        Reads are quicker than commits: without that pause they would take the drafts one by one.
        """
        self._end_backoffs(now)
        if self._read:
            return []
        batches = []
        for queue, count in _fill(self._readable.values(), lambda queue: len(queue.queued)):
            queue.reading = [queue.queued.popleft() for _ in range(count)]
            batches.append(Batch(queue, tuple(queue.reading), queue.epoch))
            self._update(queue)
        return batches

    def finish_reading(self, batch: Batch, verified: Iterable[PendingDraft]) -> list[PendingDraft] | None:
        """Move the verified drafts on and drop the others.

        Returns the drafts whose id another sender's draft, ahead of them, has taken. Returns None, and moves nothing,
        when the chat was retried meanwhile.
        """
        queue = batch.queue
        if queue.epoch != batch.epoch:
            return None
        queue.reading = []
        ahead = {pending.draft.client_message_id: pending for pending in (*queue.committing, *queue.verified)}
        moved, clashing = [], []
        for pending in verified:
            first = ahead.setdefault(pending.draft.client_message_id, pending)
            if first is pending:
                moved.append(pending)
            elif first.draft.sender_id == pending.draft.sender_id:
                first.repeats += (pending, *pending.repeats)
                pending.repeats = []
            else:
                clashing.append(pending)
        queue.verified.extend(moved)
        # The verified drafts own their ids from now on, also where another draft held one before.
        for pending in moved:
            self._by_key[queue.chat_id, pending.draft.client_message_id] = pending
        if moved and not queue.committing:
            self._read.add(queue.chat_id)
        self._release_keys(set(batch.drafts) - set(moved))
        self._update(queue)
        return clashing

    def start_committing(self) -> list[Batch]:
        """The next transaction, of chats that are in none. A chat that was retried commits alone."""
        waiting = list(self._committable.values())
        alone = waiting[:1] if waiting and waiting[0].alone else []
        candidates = alone or [queue for queue in waiting if not queue.alone]
        batches = []
        for queue, count in _fill(candidates, lambda queue: len(queue.verified)):
            queue.committing = [queue.verified.popleft() for _ in range(count)]
            batches.append(Batch(queue, tuple(queue.committing), queue.epoch))
            self._update(queue)
        return batches

    def finish_committing(self, batch: Batch) -> None:
        """The batch's drafts leave the queue, stored or failed."""
        batch.queue.committing = []
        batch.queue.alone = False
        self._release_keys(batch.drafts)
        self._update(batch.queue)

    def retry(self, batch: Batch, *, failed: Iterable[PendingDraft], until: float) -> None:
        """Read the chat again, alone and not before `until`; the failed drafts leave the queue."""
        queue, gone = batch.queue, set(failed)
        back = [pending for pending in (*queue.committing, *queue.verified, *queue.reading) if pending not in gone]
        queue.queued.extendleft(reversed(back))
        queue.committing, queue.reading = [], []
        queue.verified.clear()
        queue.epoch += 1
        queue.alone = queue.backing_off = True
        self._retries += 1
        heapq.heappush(self._backing_off, (until, self._retries, queue))
        self._release_keys(gone)
        self._update(queue)

    def next_retry(self) -> float | None:
        """When the first backoff ends."""
        return self._backing_off[0][0] if self._backing_off else None

    def drain(self) -> list[PendingDraft]:
        """Remove and return every draft that is in no transaction."""
        drained: list[PendingDraft] = []
        for queue in list(self._queues.values()):
            drained += (*queue.verified, *queue.reading, *queue.queued)
            queue.verified.clear()
            queue.queued.clear()
            queue.reading = []
            queue.epoch += 1
            self._update(queue)
        self._release_keys(drained)
        return drained

    def _end_backoffs(self, now: float) -> None:
        while self._backing_off and self._backing_off[0][0] <= now:
            _, _, queue = heapq.heappop(self._backing_off)
            queue.backing_off = False
            self._update(queue)

    def _owns_key(self, pending: PendingDraft) -> bool:
        return self._by_key.get((pending.draft.chat_id, pending.draft.client_message_id)) is pending

    def _release_keys(self, drafts: Iterable[PendingDraft]) -> None:
        for pending in drafts:
            if self._owns_key(pending):
                del self._by_key[pending.draft.chat_id, pending.draft.client_message_id]

    def _update(self, queue: ChatQueue) -> None:
        """Enter the queue among the readable and the committable ones, at the end if it was just served."""
        if queue.queued:
            self._skip_read(queue)
        if queue.is_committable:
            self._committable.setdefault(queue.chat_id, queue)
        elif self._committable.pop(queue.chat_id, None) is not None:
            self._read.discard(queue.chat_id)
        if queue.is_readable:
            self._readable.setdefault(queue.chat_id, queue)
        else:
            self._readable.pop(queue.chat_id, None)
        if queue.is_empty and not queue.backing_off:
            self._queues.pop(queue.chat_id, None)

    def _skip_read(self, queue: ChatQueue) -> None:
        """Verify drafts that need no read, up to the first that does. After a retry every draft needs one.

        So does a draft whose id another one holds: the read tells which was first.
        """
        if queue.reading or queue.backing_off or queue.alone:
            return
        while queue.queued:
            pending = queue.queued[0]
            if not (self._may_skip_read(pending) and self._owns_key(pending)):
                return
            queue.verified.append(queue.queued.popleft())


def _fill(queues: Iterable[ChatQueue], available: Callable[[ChatQueue], int]) -> list[tuple[ChatQueue, int]]:
    """Share one transaction's items among the queues, a few drafts a turn, as long as anything fits."""
    room = TRANSACTION_ITEMS
    turns: deque[ChatQueue] = deque()
    for queue in queues:
        turns.append(queue)
        if len(turns) * (COUNTER_ITEMS + MESSAGE_ITEMS) > TRANSACTION_ITEMS:
            break
    counts: dict[ChatQueue, int] = {}
    while turns:
        queue = turns.popleft()
        taken = counts.get(queue, 0)
        cost = 0 if taken else COUNTER_ITEMS
        count = min(DRAFTS_PER_TURN, available(queue) - taken, (room - cost) // MESSAGE_ITEMS)
        if count <= 0:
            continue
        counts[queue] = taken + count
        room -= cost + count * MESSAGE_ITEMS
        turns.append(queue)
    return list(counts.items())
