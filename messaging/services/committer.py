"""The group committer: drafts from every edge are committed together.

Drafts gather while commits are in flight, so an idle process commits each draft at once and a busy one fills its
transactions; no timer, no added latency. The stages overlap: the next batches are read while a few transactions
commit, and Kafka's delivery reports arrive on their own. Stored before announced, announced before acknowledged.
A chat that other processes write too is read and committed by itself, so that its retries cost no other chat any.

Everything runs on one event loop. Threads enter by `ServiceLoop.run(committer.send(draft))`.
"""

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Protocol

from chats.errors import ChatNotFound
from foundation.kernel.clock import Clock
from foundation.kernel.errors import Overloaded, ParleyError, RateLimited
from foundation.kernel.ids import ChatId, IdFactory, MessageId, UserId, is_chat_id
from foundation.kernel.retry import RetryPolicy
from foundation.kernel.tracing import trace_id_of
from foundation.stores.errors import EventLogUnavailable, StoreUnavailable
from foundation.stores.kafka.producer import EventProducer
from messaging.domain import Draft, Kind, Sent, entry_persisted
from messaging.errors import ClientMessageIdConflict
from messaging.services import metrics
from messaging.services.batch_reader import BatchReader, ReadResult
from messaging.services.failed_batches import FailedBatch, unanswered
from messaging.services.ingest import Ingest
from messaging.services.queues import GUEST, OWN, Batch, ChatQueues, PendingDraft
from messaging.services.recent_chats import RecentChats

log = logging.getLogger(__name__)

WRITERS = 2
ALONE_AT_ONCE = 16
"""Chats that are read and committed by themselves at a time, beside the shared reads and transactions."""
MAX_WAITING = 10_000
RETRIES = RetryPolicy(attempts=15, first_pause=0.005, longest_pause=0.25)
CONTENTION_RETRIES = RetryPolicy(attempts=200, first_pause=0.005, longest_pause=0.05)
"""For a chat that another process wrote first: whoever writes next wins it, so nobody pauses for long."""
RETRY_DEADLINE = 10.0
"""Seconds after a draft's arrival in which a retry may begin. Then its sender gets the error."""
SEND_TIMEOUT = 20.0
LARGE_CHAT = 16_000_000
"""Entries: 80 % of what fills a partition of 10 GB."""
CLOSE_TIMEOUT = 20.0
MAX_WAITING_PER_CHAT = 2_500
"""A share: drafts of a chat that is written slowly do not keep those of others out."""
LIMITED_USERS = 50_000


class SendRateLimiter:
    """A token bucket per user: `burst` messages at once, `rate` a second in the long run. For one process."""

    def __init__(self, *, rate: float, burst: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._monotonic = monotonic
        self._buckets: OrderedDict[UserId, tuple[float, float]] = OrderedDict()

    def take(self, user_id: UserId) -> None:
        """Take a token. Raises `RateLimited`, and then takes none."""
        now = self._monotonic()
        tokens, at = self._buckets.pop(user_id, (self._burst, now))
        tokens = min(self._burst, tokens + (now - at) * self._rate)
        self._buckets[user_id] = (tokens - 1 if tokens >= 1 else tokens, now)
        if len(self._buckets) > LIMITED_USERS:
            self._buckets.popitem(last=False)
        if tokens < 1:
            raise RateLimited("You are sending too fast; slow down and send it again", retry_after=1 / self._rate)


class Router(Protocol):
    """Hands drafts over to other processes (`messaging.services.handover`)."""

    is_active: bool

    def take(self, pending: PendingDraft) -> bool: ...

    def drain(self) -> list[PendingDraft]: ...


class Committer:
    """Takes drafts and answers each with its message. One per process; all methods are for its event loop."""

    def __init__(
        self,
        *,
        ingest: Ingest,
        reader: BatchReader,
        producer: EventProducer,
        clock: Clock,
        ids: IdFactory,
        limiter: SendRateLimiter | None = None,
        recent: RecentChats | None = None,
        writers: int = WRITERS,
        max_waiting: int = MAX_WAITING,
        retry: RetryPolicy = RETRIES,
        contention_retry: RetryPolicy = CONTENTION_RETRIES,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ingest = ingest
        self._reader = reader
        self._producer = producer
        self._clock = clock
        self._ids = ids
        self._limiter = limiter
        self._recent = recent
        self._retry = retry
        self._contention_retry = contention_retry
        self._monotonic = monotonic
        self._max_waiting = max_waiting
        self._writers = writers
        self._router: Router | None = None
        self._queues = ChatQueues(may_skip_read=ingest.may_skip_read, may_share=ingest.may_share)
        self._waiting = 0
        self._waiting_in: Counter[ChatId] = Counter()
        self._all_answered = asyncio.Event()
        self._is_accepting = True
        self._is_scheduled = False
        self._is_reading = False
        self._committing = 0
        self._alone = 0
        self._is_stopped = False
        self._retry_timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        metrics.WAITING.set_function(lambda: self._waiting)

    def submit(self, draft: Draft) -> "asyncio.Future[Sent]":
        """Enqueue a draft. Drafts of one chat are stored in the order of these calls.

        The future ends when the entry is durable and announced, or with the reason why not. Raises at once for an
        invalid draft, for an id that cannot name a chat, `RateLimited`, and `Overloaded` when too many drafts wait.
        """
        draft.require_valid()
        if not is_chat_id(draft.chat_id):
            raise ChatNotFound
        if self._limiter is not None and draft.kind is not Kind.NOTICE and not draft.by_staff:
            self._limiter.take(draft.sender_id)
        pending = self._admit(draft, self._ids.message())
        router = self._router
        if router is None or not router.is_active or not router.take(pending):
            self.enqueue(pending)
        return pending.future

    def _admit(self, draft: Draft, message_id: MessageId) -> PendingDraft:
        if not self._is_accepting:
            raise Overloaded("The server is shutting down, try again", retry_after=1.0)
        if self._waiting >= self._max_waiting:
            raise Overloaded("Too many messages are waiting, try again shortly", retry_after=1.0)
        if self._waiting_in[draft.chat_id] >= MAX_WAITING_PER_CHAT:
            raise Overloaded("Too many messages wait for this chat, try again shortly", retry_after=1.0)
        if not draft.client_message_id:
            draft = replace(draft, client_message_id=message_id)
        self._waiting += 1
        self._waiting_in[draft.chat_id] += 1
        return PendingDraft(draft, message_id, self._monotonic(), asyncio.get_running_loop().create_future())

    async def send(self, draft: Draft) -> Sent:
        """Submit a draft and wait for its answer. Raises whatever the future ends with."""
        try:
            async with asyncio.timeout(SEND_TIMEOUT):
                return await self.submit(draft)
        except TimeoutError as error:
            raise StoreUnavailable("The message was not stored in time; send it again with the same id") from error

    async def close(self) -> None:
        """Accept no more drafts, finish the pending ones, and refuse those that are not finished in time."""
        self._is_accepting = False
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                while self._waiting:
                    self._all_answered.clear()
                    await self._all_answered.wait()
        except TimeoutError:
            log.warning("%d drafts are refused at shutdown", self._waiting)
        self._is_stopped = True
        refused = self._queues.drain() + ([] if self._router is None else self._router.drain())
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_TIMEOUT)
        self.fail(refused, Overloaded("The server is shutting down, try again", retry_after=1.0))

    # For other processes' drafts and those handed over

    def use(self, router: Router) -> None:
        """Ask a router, while it is active, whether it takes a draft."""
        self._router = router

    def accept(self, draft: Draft, message_id: MessageId) -> PendingDraft:
        """Enqueue a draft that another process has admitted. Raises what `submit` raises, except `RateLimited`."""
        draft.require_valid()
        if not is_chat_id(draft.chat_id):
            raise ChatNotFound
        pending = self._admit(draft, message_id)
        pending.path = GUEST
        self.enqueue(pending)
        return pending

    def enqueue(self, pending: PendingDraft) -> None:
        """Commit a draft that was admitted here, behind those of its chat."""
        self._queues.add(pending)
        self._schedule()

    def list_pending(self, chat_id: ChatId) -> list[PendingDraft]:
        """The chat's drafts in this process that are neither stored nor refused."""
        return self._queues.list_pending(chat_id)

    def on_homes_changed(self) -> None:
        """Chats have another home than before: what is remembered of them is stale, and others may be shared."""
        self._ingest.forget_all()
        self._queues.update_all()
        self._schedule()

    def _schedule(self) -> None:
        """Drafts that arrive in one iteration of the loop are committed together."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._advance)

    def _advance(self) -> None:
        """Start what can start: one shared read, as many transactions as there are writers, and chats by themselves."""
        self._is_scheduled = False
        if self._is_stopped:
            return
        while self._committing < self._writers and (batches := self._queues.start_committing()):
            self._committing += 1
            self._start(self._write(batches))
        if not self._is_reading and (batches := self._queues.start_reading()):
            self._is_reading = True
            self._start(self._read(batches))
        now = self._monotonic()
        self._queues.end_backoffs(now)
        if (retry_at := self._queues.next_retry()) is not None:
            self._advance_in(retry_at - now)
        while self._alone < ALONE_AT_ONCE and (batch := self._queues.start_alone()) is not None:
            self._alone += 1
            self._start(self._commit_alone(batch))

    def _advance_in(self, seconds: float) -> None:
        if self._retry_timer is not None:
            self._retry_timer.cancel()
        self._retry_timer = asyncio.get_running_loop().call_later(seconds, self._advance)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish)

    def _finish(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a batch failed", exc_info=error)

    # Reading

    async def _read(self, batches: Sequence[Batch]) -> None:
        try:
            await self._verify(batches)
        finally:
            self._is_reading = False
            self._advance()

    async def _verify(self, batches: Sequence[Batch], *, fresh: bool = False) -> None:
        try:
            result = await self._reader.read(batches, fresh=fresh)
        except ParleyError as error:
            self._fail_reading(batches, error)
        except Exception:
            log.exception("reading a batch failed")
            self._fail_reading(batches, ParleyError())
        else:
            self._apply(batches, result)

    def _apply(self, batches: Sequence[Batch], result: ReadResult) -> None:
        current: set[ChatId] = set()
        for batch in batches:
            clashing = self._queues.finish_reading(batch, result.writable.get(batch.chat_id, ()))
            if clashing is not None:
                # Of plain messages there are none: those of the drafts that are being committed stay.
                if (facts := result.facts.get(batch.chat_id)) is not None:
                    batch.queue.facts = facts
                current.add(batch.chat_id)
                self.fail(clashing, ClientMessageIdConflict())
        self._fail_each([each for each in result.refused if each[0].draft.chat_id in current])
        self._announce([(pending, sent) for pending, sent in result.stored if pending.draft.chat_id in current])

    def _fail_reading(self, batches: Sequence[Batch], error: ParleyError) -> None:
        """Fail the drafts, except those that were tried: they may be stored, and are to be announced then."""
        for batch in batches:
            if batch.queue.epoch != batch.epoch:
                continue
            may_be_stored = not batch.queue.committing and any(pending.attempts for pending in batch.drafts)
            if may_be_stored and isinstance(error, StoreUnavailable):
                self._retry_batch(unanswered(batch, error))
            else:
                self._queues.finish_reading(batch, ())
                self.fail(batch.drafts, error)

    # Committing

    async def _write(self, batches: list[Batch]) -> None:
        try:
            while batches:
                batches = await self._commit(batches)
        finally:
            self._committing -= 1
            self._advance()

    async def _commit_alone(self, batch: Batch) -> None:
        """Read one chat and write it at once, before another process does."""
        try:
            await self._verify([batch], fresh=True)
            if (verified := self._queues.commit_alone(batch)) is not None:
                await self._commit([verified])
        finally:
            self._alone -= 1
            self._advance()

    async def _commit(self, batches: list[Batch]) -> list[Batch]:
        """Write a transaction; return the batches that were not the cause of its failure, to be written again."""
        if self._recent is not None:
            now, until = self._monotonic(), self._recent.good_until
            if unnoted := [batch.chat_id for batch in batches if until.get(batch.chat_id, now) <= now]:
                self._recent.note(unnoted)
        metrics.BATCH_CHATS.observe(len(batches))
        metrics.BATCH_MESSAGES.observe(sum(len(batch.drafts) for batch in batches))
        try:
            with metrics.COMMIT_SECONDS.time():
                result = await self._ingest.write(batches)
        except Exception:
            log.exception("writing a batch failed")
            for batch in batches:
                self._queues.finish_committing(batch)
                self.fail(batch.drafts, ParleyError())
            return []
        try:
            self._fail_each(result.refused)
            self._announce(result.answered)
        finally:
            # After the hand-over to Kafka, so that the chat's events keep the order of their sequences.
            for batch in result.committed:
                self._queues.finish_committing(batch)
        for failure in result.failed:
            self._retry_batch(failure)
        return result.unaffected

    def _retry_batch(self, failure: FailedBatch) -> None:
        """Read the chat again after a backoff, without the drafts that have used up their attempts."""
        metrics.RETRIED_BATCHES.labels(failure.reason).inc()
        policy = self._contention_retry if failure.contended else self._retry
        now, drafts = self._monotonic(), failure.batch.drafts
        for pending in drafts:
            pending.attempts += 1
        attempt = max(pending.attempts for pending in drafts) - 1
        failed = [
            pending
            for pending in drafts
            if failure.permanent
            or self._is_stopped
            or pending.attempts >= policy.attempts
            or now - pending.arrived > RETRY_DEADLINE
        ]
        self._queues.retry(failure.batch, failed=failed, until=now + policy.pause(attempt))
        self.fail(failed, failure.error)

    # Answering

    def _announce(self, answered: Sequence[tuple[PendingDraft, Sent]]) -> None:
        """Hand entries to Kafka; each sender gets the answer when Kafka has taken the event."""
        stored = [each for each in answered if not each[1].unchanged]
        if len(stored) < len(answered):
            self.succeed([each for each in answered if each[1].unchanged])
        if not stored:
            return
        loop, now = asyncio.get_running_loop(), self._clock.now()
        events = [
            entry_persisted(sent.message, event_id=self._ids.event(), now=now, draft=pending.draft)
            for pending, sent in stored
        ]

        _log_stored(stored)
        unanswered = dict(enumerate(stored))

        def on_delivered(positions: Iterable[int], error: EventLogUnavailable | None) -> None:
            answered = [unanswered.pop(position) for position in positions if position in unanswered]
            # A change of members is answered anyway: its repetition would be refused, and the event follows later.
            succeeded = answered if error is None else [each for each in answered if each[0].draft.may_change_members]
            self.succeed(succeeded)
            if error is not None:
                self.fail([pending for pending, _ in answered if not pending.draft.may_change_members], error)

        def report(positions: Iterable[int], error: EventLogUnavailable | None) -> None:
            """Called on the producer's thread."""
            loop.call_soon_threadsafe(on_delivered, positions, error)

        try:
            self._producer.publish(events, on_delivered=report)
        except Exception:
            log.exception("publishing a batch failed")
            report(range(len(stored)), EventLogUnavailable("The events could not be handed to Kafka"))
        for pending, _ in stored:
            for each in (pending, *pending.repeats):
                for call in each.when_stored or ():
                    call()

    def succeed(self, answered: Sequence[tuple[PendingDraft, Sent]]) -> None:
        """Answer with entries."""
        now = self._monotonic()
        for pending, sent in answered:
            if sent.duplicate:
                metrics.DUPLICATES.inc()
            metrics.SEND_SECONDS.observe(now - pending.arrived)
            if not pending.future.done():
                pending.future.set_result(sent)
            for repeat in pending.repeats:
                metrics.DUPLICATES.inc()
                if not repeat.future.done():
                    repeat.future.set_result(replace(sent, duplicate=True))
            self._count_answered(pending)
        self._count_sent([pending for pending, _ in answered])

    def _count_sent(self, drafts: Sequence[PendingDraft]) -> None:
        """By path. Drafts of other processes are counted as sent there."""
        own = sent = 0
        for pending in drafts:
            for each in (pending, *pending.repeats):
                sent += each.path is not GUEST
                if each.path is OWN:
                    own += 1
                else:
                    metrics.PATHS.labels(*each.path).inc()
        metrics.SENT.inc(sent)
        metrics.OWN_DRAFTS.inc(own)

    def _fail_each(self, refused: Sequence[tuple[PendingDraft, ParleyError]]) -> None:
        for pending, error in refused:
            self.fail([pending], error)

    def fail(self, drafts: Sequence[PendingDraft], error: ParleyError) -> None:
        """Answer with an error, also the repeats."""
        everyone = [each for pending in drafts for each in (pending, *pending.repeats)]
        if not everyone:
            return
        for pending in everyone:
            if not pending.future.done():
                # A copy each: one exception raised in several tasks would collect all their tracebacks.
                pending.future.set_exception(copy(error))
        metrics.FAILED.labels(error.code).inc(len(everyone))
        for pending in drafts:
            self._count_answered(pending)

    def _count_answered(self, pending: PendingDraft) -> None:
        """A draft, and with it its repeats, which are the same chat's, wait no more."""
        chat_id, count = pending.draft.chat_id, 1 + len(pending.repeats)
        self._waiting -= count
        self._waiting_in[chat_id] -= count
        if not self._waiting_in[chat_id]:
            del self._waiting_in[chat_id]
        if self._waiting == 0:
            self._all_answered.set()


def _log_stored(stored: Sequence[tuple[PendingDraft, Sent]]) -> None:
    """Each entry at DEBUG, and a chat that outgrows its partition: sequences are dense, so once for each multiple."""
    traced = log.isEnabledFor(logging.DEBUG)
    for pending, sent in stored:
        entry = sent.message
        if entry.sequence % LARGE_CHAT == 0:
            metrics.LARGE_CHATS.inc()
            ids = {"event": "large_chat", "chat_id": entry.chat_id, "sequence": entry.sequence}
            log.warning("a chat has %d entries: archive it", entry.sequence, extra=ids)
        if traced:
            ids = {"message_id": entry.message_id, "chat_id": entry.chat_id, "sequence": entry.sequence}
            if pending.draft.origin is not None:
                ids["connection_id"] = pending.draft.origin
            if pending.draft.traceparent is not None:
                ids["trace_id"] = trace_id_of(pending.draft.traceparent)
            log.debug("stored %s, to be announced", entry.message_id, extra=ids)
