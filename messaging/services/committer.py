"""The group committer: sends from every edge meet here and go into the store together.

Drafts gather while commits are in flight, so an idle process commits each at once and a busy one fills its
transactions; no timer, no added latency. The stages overlap: the next batch is read while a few commit, and Kafka's
answers come back on their own. Stored before announced, announced before acknowledged.

All of it happens on one event loop: in a busy process, waking a thread and handing it the interpreter costs more than
most of what it would do. `web` lends its own loop (`work_on`); elsewhere there is one in a thread.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from chats.errors import ChatNotFound
from foundation.kernel.clock import Clock
from foundation.kernel.errors import ParleyError
from foundation.kernel.ids import ChatId, IdFactory, is_chat_id
from foundation.kernel.loops import LoopThread
from foundation.kernel.promise import Promise
from foundation.kernel.retry import RetryPolicy
from foundation.stores.errors import EventLogUnavailable, StoreUnavailable
from foundation.stores.kafka.announcer import Announcer
from messaging.domain import Draft, Sent
from messaging.errors import ClientMessageIdConflict, Overloaded
from messaging.events import message_persisted
from messaging.services import metrics
from messaging.services.allowance import SendAllowance
from messaging.services.answers import Answers
from messaging.services.ingest import Ingest, Stumble, Verdicts
from messaging.services.lanes import Entry, Lanes, Part

log = logging.getLogger(__name__)

WRITERS = 2
MAX_WAITING = 10_000
STUMBLES = RetryPolicy(attempts=15, first_pause=0.005, longest_pause=0.25)
# No further try begins after this many seconds: the sender is told, and may send again with the same id.
DEADLINE = 10.0
PATIENCE = 20.0


class Committer:
    """Takes drafts from any thread and promises each an answer. One per process."""

    def __init__(
        self,
        *,
        ingest: Ingest,
        announcer: Announcer,
        clock: Clock,
        ids: IdFactory,
        allowance: SendAllowance | None = None,
        writers: int = WRITERS,
        max_waiting: int = MAX_WAITING,
        retry: RetryPolicy = STUMBLES,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ingest = ingest
        self._announcer = announcer
        self._clock = clock
        self._ids = ids
        self._allowance = allowance
        self._retry = retry
        self._monotonic = monotonic
        self._max_waiting = max_waiting
        self._writers = writers
        # For every thread, under the lock.
        self._lock = threading.Lock()
        self._answered = threading.Condition(self._lock)
        self._arrived: list[Entry] = []
        self._waiting = 0
        self._accepting = True
        self._loop: asyncio.AbstractEventLoop | None = None
        self._own_loop: LoopThread | None = None
        self._home: int | None = None
        # For the loop alone.
        self._lanes = Lanes(is_known=ingest.is_known)
        self._is_reading = False
        self._committing = 0
        self._stopped = False
        self._alarm: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers = Answers(monotonic=monotonic, answered=self._count_answered)
        metrics.WAITING.set_function(lambda: self._waiting)

    def work_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use this thread's loop instead of one of its own. Before the first draft."""
        self._loop, self._home = loop, threading.get_ident()

    def submit(self, draft: Draft) -> Promise[Sent]:
        """Queue a draft; drafts of one chat are stored in the order of these calls.

        The answer is there once the message is durable and announced, or the reason why not. Raises at once for an
        invalid draft, for an id that cannot name a chat, `RateLimited`, and `Overloaded` when too many wait.
        """
        draft.require_valid()
        if not is_chat_id(draft.chat_id):
            raise ChatNotFound
        if self._allowance is not None:
            self._allowance.take(draft.sender_id)
        entry = Entry(draft, self._ids.message(), self._monotonic())
        with self._lock:
            if not self._accepting:
                raise Overloaded("The server is shutting down, try again", retry_after=1.0)
            if self._waiting >= self._max_waiting:
                raise Overloaded("Too many messages are waiting, try again shortly", retry_after=1.0)
            self._waiting += 1
            self._arrived.append(entry)
            is_first = len(self._arrived) == 1
            loop = self._loop or self._start_own()
        if is_first:
            # Once for all that arrive in one turn of the loop.
            call = loop.call_soon if threading.get_ident() == self._home else loop.call_soon_threadsafe
            call(self._take_arrived)
        return entry.answer

    def send(self, draft: Draft, *, timeout: float = PATIENCE) -> Sent:
        """The same for a caller that waits. Raises whatever the draft met."""
        try:
            return self.submit(draft).result(timeout)
        except TimeoutError as error:
            raise StoreUnavailable("The message was not stored in time; send it again with the same id") from error

    def close(self, timeout: float = PATIENCE) -> None:
        """Take no more drafts, finish what is held, and refuse what cannot be finished in time.

        Not for the loop's own thread: the loop has to go on meanwhile.
        """
        with self._lock:
            self._accepting = False
            self._answered.wait_for(lambda: self._waiting == 0, timeout)
            loop = self._loop
        if loop is None or loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._stop(timeout), loop).result(timeout + PATIENCE)
        if self._own_loop is not None:
            self._own_loop.close(timeout)

    def _start_own(self) -> asyncio.AbstractEventLoop:
        """At the first draft, so that a process that sends nothing has no thread for it."""
        self._own_loop = LoopThread("ingest")
        self._loop, self._home = self._own_loop.loop, self._own_loop.ident
        return self._loop

    # On the loop

    def _take_arrived(self) -> None:
        with self._lock:
            arrived, self._arrived = self._arrived, []
        for entry in arrived:
            self._lanes.add(entry)
        self._advance()

    def _advance(self) -> None:
        """Start what can start: one batch being read, a few being written."""
        if self._stopped:
            return
        while self._committing < self._writers and (parts := self._lanes.start_committing()):
            self._committing += 1
            self._begin(self._write(parts))
        if not self._is_reading:
            now = self._monotonic()
            if parts := self._lanes.start_reading(now):
                self._is_reading = True
                self._begin(self._read(parts))
            elif (waking := self._lanes.next_waking()) is not None:
                self._wake_at(max(0.0, waking - now))

    def _wake_at(self, pause: float) -> None:
        """Look again when a chat has rested long enough."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_later(pause, self._advance)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """A bug in one batch is told, and keeps no other from being served."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a batch failed", exc_info=error)

    async def _stop(self, patience: float) -> None:
        """Begin nothing more, and refuse what nobody will finish."""
        self._stopped = True
        self._take_arrived()
        refused = self._lanes.drain()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=patience)
        self._answers.fail(refused, Overloaded("The server is shutting down, try again", retry_after=1.0))

    # Reading

    async def _read(self, parts: Sequence[Part]) -> None:
        try:
            verdicts = await self._ingest.read(parts)
        except ParleyError as error:
            self._give_up_reading(parts, error)
        except Exception:
            log.exception("reading a batch failed")
            self._give_up_reading(parts, ParleyError())
        else:
            self._apply(parts, verdicts)
        finally:
            self._is_reading = False
            self._advance()

    def _apply(self, parts: Sequence[Part], verdicts: Verdicts) -> None:
        current: set[ChatId] = set()
        clashing: list[Entry] = []
        for part in parts:
            refused = self._lanes.finish_reading(part, verdicts.writable.get(part.chat_id, ()))
            if refused is not None:
                current.add(part.chat_id)
                clashing += refused
        self._answers.fail(clashing, ClientMessageIdConflict())
        for entry, error in verdicts.refused:
            if entry.draft.chat_id in current:
                self._answers.fail([entry], error)
        self._announce([(entry, sent) for entry, sent in verdicts.stored if entry.draft.chat_id in current])

    def _give_up_reading(self, parts: Sequence[Part], error: ParleyError) -> None:
        for part in parts:
            if self._lanes.finish_reading(part, ()) is not None:
                self._answers.fail(part.entries, error)

    # Committing

    async def _write(self, parts: list[Part]) -> None:
        try:
            while parts:
                parts = await self._commit(parts)
        finally:
            self._committing -= 1
            self._advance()

    async def _commit(self, parts: list[Part]) -> list[Part]:
        """Write a batch; return the chats that were not to blame for its failure, to be written again at once."""
        metrics.BATCH_CHATS.observe(len(parts))
        metrics.BATCH_MESSAGES.observe(sum(len(part.entries) for part in parts))
        try:
            with metrics.COMMIT_SECONDS.time():
                written = await self._ingest.write(parts)
        except Exception:
            log.exception("writing a batch failed")
            self._release(parts)
            for part in parts:
                self._answers.fail(part.entries, ParleyError())
            return []
        try:
            self._announce(
                [
                    (entry, Sent(message, duplicate=False))
                    for part, messages in written.stored
                    for entry, message in zip(part.entries, messages, strict=True)
                ]
            )
        finally:
            # Handed to Kafka before the chats may commit again: their events keep the order of their sequences.
            self._release([part for part, _ in written.stored])
        for stumble in written.stumbles:
            self._send_back(stumble)
        return written.innocent

    def _release(self, parts: Iterable[Part]) -> None:
        for part in parts:
            self._lanes.finish_committing(part)

    def _send_back(self, stumble: Stumble) -> None:
        """The chat is read again after a pause, without those who have used up their tries."""
        metrics.RETRIES.labels(stumble.reason).inc()
        now = self._monotonic()
        for entry in stumble.part.entries:
            entry.attempts += 1
        attempt = max(entry.attempts for entry in stumble.part.entries) - 1
        failed = [
            entry
            for entry in stumble.part.entries
            if stumble.hopeless
            or self._stopped
            or entry.attempts >= self._retry.attempts
            or now - entry.arrived > DEADLINE
        ]
        self._lanes.stumble(stumble.part, failed=failed, until=now + self._retry.pause(attempt))
        self._answers.fail(failed, stumble.error)

    # Answering

    def _announce(self, stored: Sequence[tuple[Entry, Sent]]) -> None:
        """Hand messages to Kafka; each sender gets the answer when it holds the message."""
        if not stored:
            return
        now = self._clock.now()
        events = [
            message_persisted(sent.message, event_id=self._ids.event(), now=now, origin=entry.draft.origin)
            for entry, sent in stored
        ]
        unheard = dict(enumerate(stored))

        def hear(places: Iterable[int], error: EventLogUnavailable | None) -> None:
            news = [unheard.pop(place) for place in places if place in unheard]
            if error is None:
                self._answers.succeed(news)
            else:
                self._answers.fail([entry for entry, _ in news], error)

        try:
            self._announcer.hand_over(events, lambda places, error: self._soon(hear, places, error))
        except Exception:
            log.exception("announcing failed")
            hear(list(unheard), EventLogUnavailable("The events could not be handed to Kafka"))

    def _soon(self, call: Callable[..., object], *arguments: object) -> None:
        """On the loop: at once where this is its thread, and by whoever asks where it has ended."""
        loop = self._loop
        if loop is None or loop.is_closed() or threading.get_ident() == self._home:
            call(*arguments)
            return
        try:
            loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:  # it has ended meanwhile
            call(*arguments)

    def _count_answered(self, count: int) -> None:
        with self._lock:
            self._waiting -= count
            if self._waiting == 0:
                self._answered.notify_all()
