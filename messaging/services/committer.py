"""The group committer: drafts from every edge are committed together.

Drafts gather while commits are in flight, so an idle process commits each draft at once and a busy one fills its
transactions; no timer, no added latency. The stages overlap: the next batches are read while a few transactions
commit, and Kafka's delivery reports arrive on their own. Stored before announced, announced before acknowledged.

Everything runs on one event loop. Threads enter by `ServiceLoop.run(committer.send(draft))`.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from copy import copy
from typing import Any

from chats.errors import ChatNotFound
from foundation.kernel.clock import Clock
from foundation.kernel.errors import ParleyError, RateLimited
from foundation.kernel.ids import ChatId, IdFactory, UserId, is_chat_id
from foundation.kernel.retry import RetryPolicy
from foundation.stores.errors import EventLogUnavailable, StoreUnavailable
from foundation.stores.kafka.producer import EventProducer
from messaging.domain import Draft, Sent, message_persisted
from messaging.errors import ClientMessageIdConflict, Overloaded
from messaging.services import metrics
from messaging.services.ingest import FailedBatch, Ingest, ReadResult
from messaging.services.queues import Batch, ChatQueues, PendingDraft

log = logging.getLogger(__name__)

WRITERS = 2
MAX_WAITING = 10_000
RETRIES = RetryPolicy(attempts=15, first_pause=0.005, longest_pause=0.25)
RETRY_DEADLINE = 10.0
"""Seconds after a draft's arrival in which a retry may begin. Then its sender gets the error."""
SEND_TIMEOUT = 20.0
CLOSE_TIMEOUT = 20.0
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


class Committer:
    """Takes drafts and answers each with its message. One per process; all methods are for its event loop."""

    def __init__(
        self,
        *,
        ingest: Ingest,
        producer: EventProducer,
        clock: Clock,
        ids: IdFactory,
        limiter: SendRateLimiter | None = None,
        writers: int = WRITERS,
        max_waiting: int = MAX_WAITING,
        retry: RetryPolicy = RETRIES,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ingest = ingest
        self._producer = producer
        self._clock = clock
        self._ids = ids
        self._limiter = limiter
        self._retry = retry
        self._monotonic = monotonic
        self._max_waiting = max_waiting
        self._writers = writers
        self._queues = ChatQueues(may_skip_read=ingest.may_skip_read)
        self._waiting = 0
        self._all_answered = asyncio.Event()
        self._is_accepting = True
        self._is_scheduled = False
        self._is_reading = False
        self._committing = 0
        self._is_stopped = False
        self._retry_timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        metrics.WAITING.set_function(lambda: self._waiting)

    def submit(self, draft: Draft) -> "asyncio.Future[Sent]":
        """Enqueue a draft. Drafts of one chat are stored in the order of these calls.

        The future ends when the message is durable and announced, or with the reason why not. Raises at once for an
        invalid draft, for an id that cannot name a chat, `RateLimited`, and `Overloaded` when too many drafts wait.
        """
        draft.require_valid()
        if not is_chat_id(draft.chat_id):
            raise ChatNotFound
        if self._limiter is not None:
            self._limiter.take(draft.sender_id)
        if not self._is_accepting:
            raise Overloaded("The server is shutting down, try again", retry_after=1.0)
        if self._waiting >= self._max_waiting:
            raise Overloaded("Too many messages are waiting, try again shortly", retry_after=1.0)
        loop = asyncio.get_running_loop()
        pending = PendingDraft(draft, self._ids.message(), self._monotonic(), loop.create_future())
        self._waiting += 1
        self._queues.add(pending)
        if not self._is_scheduled:
            # Drafts that arrive in one iteration of the loop are committed together.
            self._is_scheduled = True
            loop.call_soon(self._advance)
        return pending.future

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
        refused = self._queues.drain()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_TIMEOUT)
        self._fail(refused, Overloaded("The server is shutting down, try again", retry_after=1.0))

    def _advance(self) -> None:
        """Start what can start: one read, and as many transactions as there are writers."""
        self._is_scheduled = False
        if self._is_stopped:
            return
        while self._committing < self._writers and (batches := self._queues.start_committing()):
            self._committing += 1
            self._start(self._write(batches))
        if not self._is_reading:
            now = self._monotonic()
            if batches := self._queues.start_reading(now):
                self._is_reading = True
                self._start(self._read(batches))
            elif (retry_at := self._queues.next_retry()) is not None:
                self._advance_in(max(0.0, retry_at - now))

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
            result = await self._ingest.read(batches)
        except ParleyError as error:
            self._fail_reading(batches, error)
        except Exception:
            log.exception("reading a batch failed")
            self._fail_reading(batches, ParleyError())
        else:
            self._apply(batches, result)
        finally:
            self._is_reading = False
            self._advance()

    def _apply(self, batches: Sequence[Batch], result: ReadResult) -> None:
        current: set[ChatId] = set()
        for batch in batches:
            clashing = self._queues.finish_reading(batch, result.writable.get(batch.chat_id, ()))
            if clashing is not None:
                current.add(batch.chat_id)
                self._fail(clashing, ClientMessageIdConflict())
        for pending, error in result.refused:
            if pending.draft.chat_id in current:
                self._fail([pending], error)
        self._announce([(pending, sent) for pending, sent in result.stored if pending.draft.chat_id in current])

    def _fail_reading(self, batches: Sequence[Batch], error: ParleyError) -> None:
        for batch in batches:
            if self._queues.finish_reading(batch, ()) is not None:
                self._fail(batch.drafts, error)

    # Committing

    async def _write(self, batches: list[Batch]) -> None:
        try:
            while batches:
                batches = await self._commit(batches)
        finally:
            self._committing -= 1
            self._advance()

    async def _commit(self, batches: list[Batch]) -> list[Batch]:
        """Write a transaction; return the batches that were not the cause of its failure, to be written again."""
        metrics.BATCH_CHATS.observe(len(batches))
        metrics.BATCH_MESSAGES.observe(sum(len(batch.drafts) for batch in batches))
        try:
            with metrics.COMMIT_SECONDS.time():
                result = await self._ingest.write(batches)
        except Exception:
            log.exception("writing a batch failed")
            for batch in batches:
                self._queues.finish_committing(batch)
                self._fail(batch.drafts, ParleyError())
            return []
        try:
            self._announce(
                [
                    (pending, Sent(message, duplicate=False))
                    for batch, messages in result.stored
                    for pending, message in zip(batch.drafts, messages, strict=True)
                ]
            )
        finally:
            # After the hand-over to Kafka, so that the chat's events keep the order of their sequences.
            for batch, _ in result.stored:
                self._queues.finish_committing(batch)
        for failure in result.failed:
            self._retry_batch(failure)
        return result.unaffected

    def _retry_batch(self, failure: FailedBatch) -> None:
        """Read the chat again after a backoff, without the drafts that have used up their attempts."""
        metrics.RETRIES.labels(failure.reason).inc()
        now, drafts = self._monotonic(), failure.batch.drafts
        for pending in drafts:
            pending.attempts += 1
        attempt = max(pending.attempts for pending in drafts) - 1
        failed = [
            pending
            for pending in drafts
            if failure.permanent
            or self._is_stopped
            or pending.attempts >= self._retry.attempts
            or now - pending.arrived > RETRY_DEADLINE
        ]
        self._queues.retry(failure.batch, failed=failed, until=now + self._retry.pause(attempt))
        self._fail(failed, failure.error)

    # Answering

    def _announce(self, stored: Sequence[tuple[PendingDraft, Sent]]) -> None:
        """Hand messages to Kafka; each sender gets the answer when Kafka has taken the event."""
        if not stored:
            return
        loop, now = asyncio.get_running_loop(), self._clock.now()
        events = [
            message_persisted(sent.message, event_id=self._ids.event(), now=now, origin=pending.draft.origin)
            for pending, sent in stored
        ]

        unanswered = dict(enumerate(stored))

        def on_delivered(positions: Iterable[int], error: EventLogUnavailable | None) -> None:
            answered = [unanswered.pop(position) for position in positions if position in unanswered]
            if error is None:
                self._succeed(answered)
            else:
                self._fail([pending for pending, _ in answered], error)

        def report(positions: Iterable[int], error: EventLogUnavailable | None) -> None:
            """Called on the producer's thread."""
            loop.call_soon_threadsafe(on_delivered, positions, error)

        try:
            self._producer.publish(events, on_delivered=report)
        except Exception:
            log.exception("publishing a batch failed")
            report(range(len(stored)), EventLogUnavailable("The events could not be handed to Kafka"))

    def _succeed(self, stored: Sequence[tuple[PendingDraft, Sent]]) -> None:
        now, count = self._monotonic(), len(stored)
        for pending, sent in stored:
            if sent.duplicate:
                metrics.DUPLICATES.inc()
            metrics.SEND_SECONDS.observe(now - pending.arrived)
            if not pending.future.done():
                pending.future.set_result(sent)
            for repeat in pending.repeats:
                self._answer_repeat(repeat, sent)
            count += len(pending.repeats)
        metrics.SENT.inc(count)
        self._count_answered(count)

    def _answer_repeat(self, repeat: PendingDraft, sent: Sent) -> None:
        is_same = repeat.draft.is_same_as(sent.message)
        if is_same:
            metrics.DUPLICATES.inc()
        if repeat.future.done():
            return
        if is_same:
            repeat.future.set_result(Sent(sent.message, duplicate=True))
        else:
            repeat.future.set_exception(ClientMessageIdConflict())

    def _fail(self, drafts: Sequence[PendingDraft], error: ParleyError) -> None:
        """Answer with an error, also the repeats: they are the same sender's."""
        everyone = [each for pending in drafts for each in (pending, *pending.repeats)]
        if not everyone:
            return
        for pending in everyone:
            if not pending.future.done():
                # A copy each: one exception raised in several tasks would collect all their tracebacks.
                pending.future.set_exception(copy(error))
        metrics.FAILED.labels(error.code).inc(len(everyone))
        self._count_answered(len(everyone))

    def _count_answered(self, count: int) -> None:
        self._waiting -= count
        if self._waiting == 0:
            self._all_answered.set()
