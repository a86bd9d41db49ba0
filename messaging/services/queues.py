"""The queues of drafts: one per chat, served in turn.

Within a chat, drafts are read, committed and answered in order of arrival; drafts of known members skip the read.
Between chats the service is round-robin, a few drafts a turn, so a hot chat fills a transaction only where others
leave room. Chats that other processes write too, and chats that are retried, share nothing: each is read and then
committed by itself. Pure bookkeeping: no I/O. Not thread-safe.
"""

import asyncio
import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from foundation.kernel.ids import ChatId, MessageId
from foundation.stores.dynamodb.async_database import TRANSACTION_ITEMS
from messaging.domain import Draft, Kind, Sent
from messaging.services.fold import Facts

COUNTER_ITEMS = 1
MESSAGE_ITEMS = 2
DRAFTS_PER_TURN = 8
# As many drafts of one chat as a transaction can hold.
FULL_BATCH = (TRANSACTION_ITEMS - COUNTER_ITEMS) // MESSAGE_ITEMS


Path = tuple[str, str]
"""How a draft was committed: by which path and, where it is a fallback, why. Labels of a metric."""
OWN: Path = ("own", "")
HANDED: Path = ("handed", "")
GUEST: Path = ("guest", "")
"""Another process's draft, which is committed here."""


def fallback(reason: str) -> Path:
    return ("fallback", reason)


@dataclass(slots=True, eq=False)
class PendingDraft:
    """A draft without an answer yet.

    The message id survives every retry: an idempotency key in the store that holds it was written for this draft.
    `repeats` are later sends of the same draft, under the same id; they share the answer. `is_overtaken`: a later draft
    of its sender is stored, so that this one is answered and no longer stored.
    """

    draft: Draft
    message_id: MessageId
    arrived: float
    future: "asyncio.Future[Sent]"
    attempts: int = 0
    repeats: list["PendingDraft"] = field(default_factory=list)
    path: Path = OWN
    is_overtaken: bool = False
    when_stored: list[Callable[[], None]] | None = None

    @property
    def is_of_a_client_here(self) -> bool:
        """Also another process's draft that a client sent again through this one, and whose next follow it."""
        return self.path is not GUEST or any(repeat.path is not GUEST for repeat in self.repeats)

    def on_stored(self, call: Callable[[], None]) -> None:
        """Call a function when the draft is stored and its event is handed to Kafka's client."""
        if self.when_stored is None:
            self.when_stored = []
        self.when_stored.append(call)

    def on_done(self, call: Callable[[], None]) -> None:
        """Call a function when the draft is stored or refused, maybe twice."""
        self.on_stored(call)
        self.future.add_done_callback(lambda _: call())


@dataclass(slots=True, eq=False)
class ChatQueue:
    """A chat's drafts by stage. Committing, then verified, then reading, then queued: the order of arrival.

    `epoch` grows with every retry: the result of a read that began in an earlier epoch is discarded. `facts` is what
    the verified drafts depend on, as it stands.
    """

    chat_id: ChatId
    committing: list[PendingDraft] = field(default_factory=list)
    verified: deque[PendingDraft] = field(default_factory=deque)
    reading: list[PendingDraft] = field(default_factory=list)
    queued: deque[PendingDraft] = field(default_factory=deque)
    epoch: int = 0
    backing_off: bool = False
    retried: bool = False
    facts: Facts | None = None

    @property
    def is_readable(self) -> bool:
        """While the chat is being written, drafts gather until they would fill a transaction of their own.

        Drafts that depend on what is being written wait for it.
        """
        if not self.queued or self.reading or self.verified or self.backing_off:
            return False
        if not self.committing:
            return True
        return (
            len(self.queued) >= FULL_BATCH
            and not self.is_changing
            and not any(pending.draft.needs_read for pending in islice(self.queued, FULL_BATCH))
        )

    @property
    def is_changing(self) -> bool:
        """Whether a draft on its way to the store may change who is a member."""
        last = self.verified or self.committing
        return bool(last) and last[-1].draft.may_change_members

    @property
    def is_committable(self) -> bool:
        return bool(self.verified) and not self.committing

    @property
    def is_idle(self) -> bool:
        """Whether the chat waits with drafts and nothing of it is under way."""
        return bool(self.queued or self.verified) and not (self.reading or self.committing or self.backing_off)

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
    """All chats with pending drafts.

    `may_skip_read` tells which drafts can be committed without a read, `may_share` which chats can share reads and
    transactions with others.
    """

    def __init__(
        self,
        *,
        may_skip_read: Callable[[PendingDraft], bool] = lambda _pending: False,
        may_share: Callable[[ChatId], bool] = lambda _chat_id: True,
    ) -> None:
        self._may_skip_read = may_skip_read
        self._may_share = may_share
        self._queues: dict[ChatId, ChatQueue] = {}
        self._by_key: dict[tuple[ChatId, str], PendingDraft] = {}
        self._readable: OrderedDict[ChatId, ChatQueue] = OrderedDict()
        self._committable: OrderedDict[ChatId, ChatQueue] = OrderedDict()
        # The committable chats whose drafts have been read.
        self._read: set[ChatId] = set()
        # The chats that share nothing and can start.
        self._alone: OrderedDict[ChatId, ChatQueue] = OrderedDict()
        self._backing_off: list[tuple[float, int, ChatQueue]] = []
        self._retries = 0

    def add(self, pending: PendingDraft) -> None:
        """Queue a draft, or attach it to the pending one that it repeats."""
        draft = pending.draft
        first = self._by_key.setdefault((draft.chat_id, draft.client_message_id), pending)
        if first is not pending and first.draft.digest == draft.digest:
            first.repeats.append(pending)
            return
        queue = self._queues.get(draft.chat_id)
        if queue is None:
            queue = self._queues[draft.chat_id] = ChatQueue(draft.chat_id)
        queue.queued.append(pending)
        self._update(queue)

    def start_reading(self) -> list[Batch]:
        """The next batches to read; none while batches that were read wait for a transaction.

        Reads are quicker than commits: without that pause they would take the drafts one by one.
        """
        if self._read:
            return []
        return [self._read_next(queue, count) for queue, count in _fill(self._readable.values(), _queued)]

    def finish_reading(self, batch: Batch, verified: Iterable[PendingDraft]) -> list[PendingDraft] | None:
        """Move the verified drafts on and drop the others.

        Returns the drafts whose id another one, ahead of them, has taken. Returns None, and moves nothing, when the
        chat was retried meanwhile.
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
            elif first.draft.digest == pending.draft.digest:
                first.repeats += (pending, *pending.repeats)
                pending.repeats = []
            else:
                clashing.append(pending)
        queue.verified.extend(moved)
        # The verified drafts own their ids from now on, also where another draft held one before.
        for pending in moved:
            self._by_key[queue.chat_id, pending.draft.client_message_id] = pending
        self._release_keys(set(batch.drafts) - set(moved))
        self._update(queue)
        if moved and queue.chat_id in self._committable:
            self._read.add(queue.chat_id)
        return clashing

    def start_committing(self) -> list[Batch]:
        """The next transaction, of chats that are in none."""
        return [self._commit(queue, count) for queue, count in _fill(self._committable.values(), _verified)]

    def start_alone(self) -> Batch | None:
        """The next chat that shares nothing, to be read. Its drafts are read also if they had been verified before."""
        if not self._alone:
            return None
        queue = next(iter(self._alone.values()))
        queue.queued.extendleft(reversed(queue.verified))
        queue.verified.clear()
        return self._read_next(queue, *(count for _, count in _fill([queue], _queued)))

    def commit_alone(self, batch: Batch) -> Batch | None:
        """The transaction of a chat that `start_alone` returned: what its read has verified."""
        queue = batch.queue
        if queue.epoch != batch.epoch or not queue.is_committable:
            return None
        return self._commit(queue, len(queue.verified))

    def _read_next(self, queue: ChatQueue, count: int) -> Batch:
        queue.reading = [queue.queued.popleft() for _ in range(count)]
        self._update(queue)
        return Batch(queue, tuple(queue.reading), queue.epoch)

    def _commit(self, queue: ChatQueue, count: int) -> Batch:
        queue.committing = [queue.verified.popleft() for _ in range(count)]
        self._update(queue)
        return Batch(queue, tuple(queue.committing), queue.epoch)

    def finish_committing(self, batch: Batch) -> None:
        """The batch's drafts leave the queue, stored or failed."""
        batch.queue.committing = []
        batch.queue.retried = False
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
        queue.retried = queue.backing_off = True
        self._retries += 1
        heapq.heappush(self._backing_off, (until, self._retries, queue))
        self._release_keys(gone)
        self._update(queue)

    def list_pending(self, chat_id: ChatId) -> list[PendingDraft]:
        """The drafts of a chat that are neither stored nor refused."""
        queue = self._queues.get(chat_id)
        return [] if queue is None else [*queue.committing, *queue.verified, *queue.reading, *queue.queued]

    def next_retry(self) -> float | None:
        """When the first backoff ends."""
        return self._backing_off[0][0] if self._backing_off else None

    def update_all(self) -> None:
        """To be called when `may_share` may answer differently."""
        for queue in list(self._queues.values()):
            self._update(queue)

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

    def end_backoffs(self, now: float) -> None:
        """Chats whose backoff is over can start again."""
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
        """Enter the queue among those that can be read, committed or started alone, at the end if just served."""
        shares = not queue.retried and self._may_share(queue.chat_id)
        if shares and queue.queued:
            self._skip_read(queue)
        if shares and queue.is_committable:
            self._committable.setdefault(queue.chat_id, queue)
        elif self._committable.pop(queue.chat_id, None) is not None:
            self._read.discard(queue.chat_id)
        if shares and queue.is_readable:
            self._readable.setdefault(queue.chat_id, queue)
        else:
            self._readable.pop(queue.chat_id, None)
        if not shares and queue.is_idle:
            self._alone.setdefault(queue.chat_id, queue)
        else:
            self._alone.pop(queue.chat_id, None)
        if queue.is_empty and not queue.backing_off:
            self._queues.pop(queue.chat_id, None)

    def _skip_read(self, queue: ChatQueue) -> None:
        """Verify drafts that need no read, up to the first that does.

        A draft whose id another one holds needs one: the read tells which was first.
        """
        if queue.reading or queue.backing_off or queue.is_changing:
            return
        while queue.queued:
            pending = queue.queued[0]
            if not (self._may_skip_read(pending) and self._owns_key(pending)):
                return
            queue.verified.append(queue.queued.popleft())


def _queued(queue: ChatQueue) -> Iterable[PendingDraft]:
    return queue.queued


def _verified(queue: ChatQueue) -> Iterable[PendingDraft]:
    return queue.verified


class _QueueShare:
    """How many of a chat's drafts fit into a transaction, or into the read for it, and what they cost."""

    def __init__(self, drafts: Iterable[PendingDraft]) -> None:
        self.count = 0
        self._drafts = iter(drafts)
        self._next = next(self._drafts, None)
        self._targets: set[int] = set()
        self._has_pins = False

    def take(self, room: int) -> int:
        """Take a few drafts more, as long as they fit. Return the items that they cost."""
        spent, until = 0 if self.count else COUNTER_ITEMS, self.count + DRAFTS_PER_TURN
        while self._next is not None and self.count < until:
            draft, cost = self._next.draft, MESSAGE_ITEMS
            if draft.needs_read:
                cost += draft.extra_items + (draft.target is not None and draft.target not in self._targets)
            # A transaction cannot write one item twice: a command and pins may both write the chat.
            if spent + cost > room or (draft.may_change_members and self._has_pins):
                self._next = None
                break
            spent += cost
            self.count += 1
            self._has_pins = self._has_pins or draft.kind is Kind.PIN
            if draft.target is not None:
                self._targets.add(draft.target)
            self._next = None if draft.may_change_members else next(self._drafts, None)
        return spent if self.count else 0


def _fill(
    queues: Iterable[ChatQueue], waiting: Callable[[ChatQueue], Iterable[PendingDraft]]
) -> list[tuple[ChatQueue, int]]:
    """Share one transaction's items among the queues, a few drafts a turn, as long as anything fits."""
    room = TRANSACTION_ITEMS
    turns: deque[tuple[ChatQueue, _QueueShare]] = deque()
    for queue in queues:
        turns.append((queue, _QueueShare(waiting(queue))))
        if len(turns) * (COUNTER_ITEMS + MESSAGE_ITEMS) > TRANSACTION_ITEMS:
            break
    shares = list(turns)
    while turns:
        queue, share = turns.popleft()
        before = share.count
        room -= share.take(room)
        if share.count > before:
            turns.append((queue, share))
    return [(queue, share.count) for queue, share in shares if share.count]
