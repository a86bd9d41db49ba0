"""The group committer: sends from every edge meet here and go into the store together.

Drafts gather while commits are in flight, so an idle process commits each at once and a busy one fills its
transactions; no timer, no added latency. The stages overlap: one thread reads the next batch while a few commit, and
Kafka's answers come back on their own. Stored before announced, announced before acknowledged.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy

from chats.errors import ChatNotFound
from config.kernel.clock import Clock
from config.kernel.errors import ParleyError
from config.kernel.ids import ChatId, IdFactory, is_chat_id
from config.kernel.promise import Promise
from config.kernel.retry import RetryPolicy
from config.stores.announcer import Announcer
from config.stores.errors import EventLogUnavailable, StoreUnavailable
from messaging.domain import Draft, Message, Sent
from messaging.errors import ClientMessageIdConflict, Overloaded
from messaging.events import message_persisted
from messaging.services import metrics
from messaging.services.allowance import SendAllowance
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
        self._lanes = Lanes()
        self._waiting = 0
        metrics.WAITING.set_function(lambda: self._waiting)
        self._accepting = True
        self._stopped = False
        self._lock = threading.Lock()
        self._to_read = threading.Condition(self._lock)
        self._to_commit = threading.Condition(self._lock)
        self._answered = threading.Condition(self._lock)
        self._started = False
        self._threads = [
            threading.Thread(target=self._read_loop, name="ingest-reader", daemon=True),
            *(threading.Thread(target=self._write_loop, name="ingest-writer", daemon=True) for _ in range(writers)),
        ]

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
            self._lanes.add(entry)
            self._wake()
            self._start()
        return entry.answer

    def send(self, draft: Draft, *, timeout: float = PATIENCE) -> Sent:
        """The same for a caller that waits. Raises whatever the draft met."""
        try:
            return self.submit(draft).result(timeout)
        except TimeoutError as error:
            raise StoreUnavailable("The message was not stored in time; send it again with the same id") from error

    def close(self, timeout: float = PATIENCE) -> None:
        """Take no more drafts, finish what is held, and refuse what cannot be finished in time."""
        with self._lock:
            self._accepting = False
            self._answered.wait_for(lambda: self._waiting == 0, timeout)
            self._stopped = True
            refused = self._lanes.drain()
            self._to_read.notify_all()
            self._to_commit.notify_all()
        self._fail(refused, Overloaded("The server is shutting down, try again", retry_after=1.0))
        for thread in self._threads if self._started else ():
            thread.join(timeout)

    def _start(self) -> None:
        """At the first draft, so that a process that sends nothing has no threads for it."""
        if not self._started:
            self._started = True
            for thread in self._threads:
                thread.start()

    def _wake(self) -> None:
        """Wake a thread that has something to do; any other would only take the interpreter from the rest."""
        if self._lanes.can_commit:
            self._to_commit.notify()
        elif self._lanes.can_read:
            self._to_read.notify()

    # Reading

    def _read_loop(self) -> None:
        while (parts := self._next_to_read()) is not None:
            try:
                verdicts = self._ingest.read(parts)
            except ParleyError as error:
                self._give_up_reading(parts, error)
            except Exception:
                log.exception("reading a batch failed")
                self._give_up_reading(parts, ParleyError())
            else:
                with _surviving("applying what was read"):
                    self._apply(parts, verdicts)

    def _next_to_read(self) -> list[Part] | None:
        with self._lock:
            while not self._stopped:
                now = self._monotonic()
                if parts := self._lanes.start_reading(now):
                    return parts
                waking = self._lanes.next_waking()
                self._to_read.wait(None if waking is None else max(0.0, waking - now))
            return None

    def _apply(self, parts: Sequence[Part], verdicts: Verdicts) -> None:
        current: set[ChatId] = set()
        clashing: list[Entry] = []
        with self._lock:
            for part in parts:
                refused = self._lanes.finish_reading(part, verdicts.writable.get(part.chat_id, ()))
                if refused is not None:
                    current.add(part.chat_id)
                    clashing += refused
            self._wake()
        self._fail(clashing, ClientMessageIdConflict())
        for entry, error in verdicts.refused:
            if entry.draft.chat_id in current:
                self._fail([entry], error)
        self._announce([(entry, sent) for entry, sent in verdicts.stored if entry.draft.chat_id in current])

    def _give_up_reading(self, parts: Sequence[Part], error: ParleyError) -> None:
        with self._lock:
            current = [part for part in parts if self._lanes.finish_reading(part, ()) is not None]
            self._wake()
        for part in current:
            self._fail(part.entries, error)

    # Committing

    def _write_loop(self) -> None:
        while (parts := self._next_to_commit()) is not None:
            with _surviving("committing a batch"):
                while parts:
                    parts = self._commit(parts)

    def _next_to_commit(self) -> list[Part] | None:
        with self._lock:
            while not self._stopped:
                if parts := self._lanes.start_committing():
                    self._wake()
                    return parts
                self._to_commit.wait()
            return None

    def _commit(self, parts: list[Part]) -> list[Part]:
        """Write a batch; return the chats that were not to blame for its failure, to be written again at once."""
        metrics.BATCH_CHATS.observe(len(parts))
        metrics.BATCH_MESSAGES.observe(sum(len(part.entries) for part in parts))
        try:
            with metrics.COMMIT_SECONDS.time():
                written = self._ingest.write(parts)
        except Exception:
            log.exception("writing a batch failed")
            self._release(parts)
            for part in parts:
                self._fail(part.entries, ParleyError())
            return []
        self._announce(
            [
                (entry, Sent(message, duplicate=False))
                for part, messages in written.stored
                for entry, message in zip(part.entries, messages, strict=True)
            ]
        )
        # Handed to Kafka before the chats may commit again: their events keep the order of their sequences.
        self._release([part for part, _ in written.stored])
        for stumble in written.stumbles:
            self._send_back(stumble)
        return written.innocent

    def _release(self, parts: Iterable[Part]) -> None:
        with self._lock:
            for part in parts:
                self._lanes.finish_committing(part)
            self._wake()

    def _send_back(self, stumble: Stumble) -> None:
        """The chat is read again after a pause, without those who have used up their tries."""
        metrics.RETRIES.labels(stumble.reason).inc()
        now = self._monotonic()
        for entry in stumble.part.entries:
            entry.attempts += 1
        attempt = max(entry.attempts for entry in stumble.part.entries) - 1
        with self._lock:
            failed = [
                entry
                for entry in stumble.part.entries
                if stumble.hopeless
                or self._stopped
                or entry.attempts >= self._retry.attempts
                or now - entry.arrived > DEADLINE
            ]
            self._lanes.stumble(stumble.part, failed=failed, until=now + self._retry.pause(attempt))
            self._to_read.notify()  # to learn when the chat may be read again
            self._wake()
        self._fail(failed, stumble.error)

    # Answering

    def _announce(self, stored: Sequence[tuple[Entry, Sent]]) -> None:
        """Hand messages to Kafka; each sender gets the answer when it holds the message."""
        if not stored:
            return
        now = self._clock.now()
        started = self._monotonic()
        events = [
            message_persisted(sent.message, event_id=self._ids.event(), now=now, origin=entry.draft.origin)
            for entry, sent in stored
        ]

        def told(place: int, error: EventLogUnavailable | None) -> None:
            entry, sent = stored[place]
            metrics.PUBLISH_SECONDS.observe(self._monotonic() - started)
            if error is None:
                self._succeed(entry, sent)
            else:
                self._fail([entry], error)

        try:
            self._announcer.hand_over(events, told)
        except Exception:
            log.exception("announcing failed")
            error = EventLogUnavailable("The events could not be handed to Kafka")
            self._fail([entry for entry, _ in stored if not entry.answer.done()], error)

    def _succeed(self, entry: Entry, sent: Sent) -> None:
        if sent.duplicate:
            metrics.DUPLICATES.inc()
        metrics.SEND_SECONDS.observe(self._monotonic() - entry.arrived)
        entry.answer.set_result(sent)
        for repeat in entry.repeats:
            self._answer_repeat(repeat, sent.message)
        count = 1 + len(entry.repeats)
        metrics.SENT.inc(count)
        self._count_answered(count)

    def _answer_repeat(self, repeat: Entry, message: Message) -> None:
        if repeat.draft.is_same_as(message):
            metrics.DUPLICATES.inc()
            repeat.answer.set_result(Sent(message, duplicate=True))
        else:
            repeat.answer.set_exception(ClientMessageIdConflict())

    def _fail(self, entries: Sequence[Entry], error: BaseException) -> None:
        """A repeat is the same sender's: what refuses the first refuses it as well."""
        if not entries:
            return
        everyone = [each for entry in entries for each in (entry, *entry.repeats)]
        for entry in everyone:
            # A copy each: an exception that several threads raise would gather all their tracebacks.
            entry.answer.set_exception(copy(error))
        metrics.FAILED.labels(getattr(error, "code", "internal_error")).inc(len(everyone))
        self._count_answered(len(everyone))

    def _count_answered(self, count: int) -> None:
        with self._lock:
            self._waiting -= count
            if self._waiting == 0:
                self._answered.notify_all()


@contextmanager
def _surviving(work: str) -> Iterator[None]:
    """A bug in one batch must not take the thread that serves all the others."""
    try:
        yield
    except Exception:
        log.exception("%s failed", work)
