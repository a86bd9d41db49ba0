"""Hands drafts over to the homes of their chats, and takes them back when a home cannot answer.

The order of a connection's drafts is the same wherever the home is: batches of a chat are under way at one home only,
and none leaves while earlier drafts are committed here. A batch names one before it that is under way; a home that has
not accepted that one does not accept the next. What a home accepts it commits in order of arrival.

A batch is under way until each of its drafts has an answer, or the home tells that it is stored. A stored batch only
waits for its answers: it holds up none behind it, however long Kafka takes.

A chat's batches under way are taken back together, in order, and committed here, in four cases only: one reached
nobody, the home answers that it is none, the home's name has left the list, or this process's own subscription broke,
so that answers are lost. A stored batch is taken back by itself: nothing can overtake it. There is no timeout: a slow
store must not make every process compete with the home. What is taken back is read before it is written, so whatever
the home still stores is found by its key, and late answers are ignored.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import orjson

from foundation.kernel.errors import ParleyError
from foundation.kernel.ids import ChatId
from messaging.services import codec, metrics
from messaging.services.homes import Homes
from messaging.services.queues import HANDED, OWN, Path, PendingDraft, fallback

MAX_DRAFTS = 49
"""As many as one transaction holds."""
MAX_BATCH_BYTES = 192 * 1024
MAX_BATCHES = 4
"""Of a chat, under way at a time. Drafts beyond them gather, and leave in fuller batches."""


class LocalCommitter(Protocol):
    """The committer of this process."""

    def enqueue(self, pending: PendingDraft) -> None:
        """Commit a draft here, behind those of its chat that are here already."""
        ...

    def list_pending(self, chat_id: ChatId) -> list[PendingDraft]:
        """The drafts of a chat that are here and neither stored nor refused."""
        ...

    def succeed(self, answered: Sequence[tuple[PendingDraft, Any]]) -> None: ...

    def fail(self, drafts: Sequence[PendingDraft], error: ParleyError) -> None: ...


class Transport(Protocol):
    """Sends batches to other processes."""

    def can_reach(self, name: str) -> bool:
        """Whether that process can read what this one sends."""
        ...

    def send_batch(self, name: str, batch_id: str, parcel: bytes) -> None:
        """Send a batch soon. If nobody receives it, `HandOver.on_unreachable` is called."""
        ...


@dataclass(slots=True, eq=False)
class HandOverQueue:
    """One chat's drafts that wait to be handed over.

    `batches` are under way at `home`, in order. `earlier` are drafts of this process that are being committed here and
    must be stored or refused before the next batch leaves.
    """

    chat_id: ChatId
    home: str = ""
    waiting: deque[PendingDraft] = field(default_factory=deque)
    batches: "dict[str, HandedBatch]" = field(default_factory=dict)
    earlier: set[PendingDraft] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class HandedBatch:
    """Drafts at their home that have no answer yet, by their positions in the batch."""

    batch_id: str
    home: str
    queue: HandOverQueue
    drafts: dict[int, PendingDraft]
    sent_at: float
    is_stored: bool = False


class HandOver:
    """The drafts of this process that are committed elsewhere. For one event loop."""

    def __init__(
        self,
        *,
        homes: Homes,
        committer: LocalCommitter,
        transport: Transport,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        # Whether `take` is to be asked: False in a process that knows that there is no other.
        self.is_active = not homes.is_alone
        self._homes = homes
        self._committer = committer
        self._transport = transport
        self._monotonic = monotonic
        self._queues: dict[ChatId, HandOverQueue] = {}
        self._ready: OrderedDict[ChatId, HandOverQueue] = OrderedDict()
        self._is_scheduled = False
        self._batches: dict[str, HandedBatch] = {}
        self._batch_count = 0
        homes.subscribe(self._on_homes_changed)

    # From the edges

    def take(self, pending: PendingDraft) -> bool:
        """Take a draft if it is to be handed over, or must wait for those that are. False: commit it here."""
        chat_id = pending.draft.chat_id
        queue = self._queues.get(chat_id)
        if queue is None:
            if self._find_peer(chat_id) is None:
                pending.path = self._path_here(chat_id)
                return False
            queue = self._queues[chat_id] = HandOverQueue(chat_id)
            self._wait_for(queue, self._committer.list_pending(chat_id))
        queue.waiting.append(pending)
        self._schedule(queue)
        return True

    def drain(self) -> list[PendingDraft]:
        """Give up every draft that has no answer yet, and return it."""
        given_up = [pending for batch in self._batches.values() for pending in batch.drafts.values()]
        given_up += [pending for queue in self._queues.values() for pending in queue.waiting]
        self._batches.clear()
        self._queues.clear()
        return given_up

    # From the homes

    def on_stored(self, home: str, batch_id: str) -> None:
        """Every draft of the batch is stored or refused: the next may leave. The answers follow."""
        batch = self._find_batch(home, batch_id)
        if batch is not None and not batch.is_stored:
            batch.is_stored = True
            del batch.queue.batches[batch_id]
            self._schedule(batch.queue)

    def on_announced(self, home: str, batch_id: str, answers: Iterable[Sequence[Any]]) -> None:
        """Drafts of the batch have their answers, given by their positions."""
        batch = self._find_batch(home, batch_id)
        if batch is None:
            return
        try:
            read = [(position, codec.answer_from_wire(answer)) for position, answer in answers]
        except (codec.UnknownForm, TypeError, ValueError):
            self._take_back(batch, "unknown_answer")
            return
        stored: list[tuple[PendingDraft, Any]] = []
        for position, answer in read:
            pending = batch.drafts.pop(position, None)
            if pending is None:
                continue
            if isinstance(answer, ParleyError):
                self._committer.fail([pending], answer)
            else:
                pending.path = HANDED
                stored.append((pending, answer))
        if stored:
            self._committer.succeed(stored)
        if not batch.drafts:
            self._finish(batch)

    def on_not_home(self, home: str, batch_id: str) -> None:
        """The home does not commit for others, or cannot read the batch."""
        if (batch := self._find_batch(home, batch_id)) is not None:
            self._take_back(batch, "not_home")

    # From the transport

    def on_unreachable(self, batch_ids: Iterable[str]) -> None:
        """Batches that reached nobody."""
        for batch_id in batch_ids:
            if (batch := self._batches.get(batch_id)) is not None:
                self._take_back(batch, "unreachable")

    def on_subscription_lost(self) -> None:
        """Answers may have been lost."""
        self._take_back_all(self._batches.values(), "subscription")

    def _on_homes_changed(self) -> None:
        names = set(self._homes.names)
        self._take_back_all((batch for batch in self._batches.values() if batch.home not in names), "left")
        for queue in self._queues.values():
            self._schedule(queue)
        self._update_activity()

    def _update_activity(self) -> None:
        self.is_active = not self._homes.is_alone or bool(self._queues)

    # Batches

    def _find_peer(self, chat_id: ChatId) -> str | None:
        """The other process that is the chat's home; None if this one is to commit."""
        home = self._homes.find_home(chat_id)
        return None if home is None or home == self._homes.own or not self._transport.can_reach(home) else home

    def _path_here(self, chat_id: ChatId) -> Path:
        """The path of a draft that no other process can take: it is at home here, or there is a reason."""
        if self._homes.is_home(chat_id):
            return OWN
        if not self._homes.names:
            return fallback("no_list")
        # Not in the list: leaving, or between two epochs.
        return fallback("unknown_key" if self._homes.find_home(chat_id) else "not_listed")

    def _find_batch(self, home: str, batch_id: str) -> HandedBatch | None:
        """A batch at that home; answers to others are late or forged."""
        batch = self._batches.get(batch_id)
        return batch if batch is not None and batch.home == home else None

    def _schedule(self, queue: HandOverQueue) -> None:
        """Drafts that arrive in one iteration of the loop leave together."""
        self._ready[queue.chat_id] = queue
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._is_scheduled = False
        ready, self._ready = self._ready, OrderedDict()
        for queue in ready.values():
            if self._queues.get(queue.chat_id) is queue:
                self._advance(queue)

    def _advance(self, queue: HandOverQueue) -> None:
        """Hand batches over; or, when the home is this process by now, leave the chat to its committer."""
        peer = self._find_peer(queue.chat_id)
        if queue.earlier or (queue.batches and queue.home != peer):
            return
        if peer is None or not (queue.waiting or queue.batches):
            del self._queues[queue.chat_id]
            self._update_activity()
            for pending in queue.waiting:
                pending.path = self._path_here(queue.chat_id)
                self._committer.enqueue(pending)
            return
        queue.home = peer
        while queue.waiting and len(queue.batches) < MAX_BATCHES:
            if not self._hand_over(queue):
                if not queue.batches:
                    self._commit_here(queue, [queue.waiting.popleft()], "too_large")
                return

    def _hand_over(self, queue: HandOverQueue) -> bool:
        """Send the next batch. False: no envelope holds the next draft."""
        drafts: list[PendingDraft] = []
        parcels: list[orjson.Fragment] = []
        size = 0
        while queue.waiting and len(drafts) < MAX_DRAFTS:
            pending = queue.waiting[0]
            parcel = orjson.dumps([pending.message_id, codec.draft_to_wire(pending.draft)])
            size += len(parcel)
            if size > MAX_BATCH_BYTES:
                break
            parcels.append(orjson.Fragment(parcel))
            drafts.append(queue.waiting.popleft())
        if not drafts:
            return False
        self._batch_count += 1
        batch_id = f"{self._homes.own}/{self._batch_count}"
        traceparents = [pending.draft.traceparent for pending in drafts]
        parcel = batch_parcel(batch_id, parcels, after=next(reversed(queue.batches), None), traceparents=traceparents)
        batch = HandedBatch(batch_id, queue.home, queue, dict(enumerate(drafts)), self._monotonic())
        self._batches[batch_id] = queue.batches[batch_id] = batch
        self._transport.send_batch(queue.home, batch_id, parcel)
        return True

    def _finish(self, batch: HandedBatch) -> None:
        metrics.HANDOVER_SECONDS.observe(self._monotonic() - batch.sent_at)
        del self._batches[batch.batch_id]
        if not batch.is_stored:
            del batch.queue.batches[batch.batch_id]
            self._schedule(batch.queue)

    # Fallback

    def _take_back_all(self, batches: Iterable[HandedBatch], reason: str) -> None:
        for batch in list(batches):
            if batch.batch_id in self._batches:  # and was not taken back with one before it
                self._take_back(batch, reason)

    def _take_back(self, batch: HandedBatch, reason: str) -> None:
        """Commit here what has no answer yet. What the home has stored already is answered by its key."""
        batches = [batch] if batch.is_stored else list(batch.queue.batches.values())
        drafts = [pending for each in batches for pending in each.drafts.values()]
        for each in batches:
            del self._batches[each.batch_id]
        for pending in drafts:
            pending.attempts += 1
        if batch.is_stored:
            self._enqueue(drafts, reason)
        else:
            batch.queue.batches.clear()
            self._commit_here(batch.queue, drafts, reason)

    def _enqueue(self, drafts: Iterable[PendingDraft], reason: str) -> None:
        for pending in drafts:
            pending.path = fallback(reason)
            self._committer.enqueue(pending)

    def _commit_here(self, queue: HandOverQueue, drafts: Sequence[PendingDraft], reason: str) -> None:
        """The queue's next batch waits until these are stored or refused."""
        self._enqueue(drafts, reason)
        self._wait_for(queue, drafts)
        self._schedule(queue)

    def _wait_for(self, queue: HandOverQueue, drafts: Iterable[PendingDraft]) -> None:
        """Wait for drafts of this process; those of other processes have an order of their own."""
        awaited = {pending for pending in drafts if pending.is_of_a_client_here and not pending.future.done()}
        queue.earlier |= awaited
        for pending in awaited:
            pending.on_done(partial(self._on_done, queue, pending))

    def _on_done(self, queue: HandOverQueue, pending: PendingDraft) -> None:
        if pending in queue.earlier:
            queue.earlier.discard(pending)
            self._schedule(queue)


def batch_parcel(
    batch_id: str,
    drafts: Sequence[orjson.Fragment],
    *,
    after: str | None = None,
    traceparents: Sequence[str | None] = (),
) -> bytes:
    """A batch for its home. One that follows another has its drafts under another name, so that a home of the version
    that knows no `after` does not accept it."""
    body: dict[str, Any] = {"type": "batch", "id": batch_id}
    if after is None:
        body["drafts"] = drafts
    else:
        body |= {"after": after, "later_drafts": drafts}
    if any(traceparents):
        body["traceparents"] = traceparents
    return orjson.dumps(body)
