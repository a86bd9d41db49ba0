"""Coalesces marks: the highest valid ones of each user and chat are written about once a second.

The first mark after a pause is written at once, together with what arrives within a few milliseconds. What a crash
loses is only repeated by clients.
"""

import asyncio
import heapq
import logging
import time
from collections import Counter as Counts
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from prometheus_client import Counter, Gauge

from chats.errors import ChatNotFound
from delivery.domain import Mark, Marks, Pair
from delivery.services.watermarks import Claim, Outcome, Watermarks
from foundation.kernel.errors import Overloaded, ParleyError, Unavailable
from foundation.kernel.ids import ChatId, UserId, is_chat_id

log = logging.getLogger(__name__)

WAITING = Gauge("parley_marks_waiting", "Users and chats whose marks wait to be written.")
WRITTEN = Counter("parley_marks_written_total", "Users and chats whose marks were written after coalescing.")
INTERVAL = 1.0
# Marks that arrive within so many seconds share a read.
LINGER = 0.02
CLOSE_TIMEOUT = 5.0
# Pauses before marks are written again that the store did not take; clients hear of what fails after the last.
RETRY_AFTER = (1.0, 2.0, 4.0, 8.0)
PAUSE_AFTER_FAILURE = 1.0
# A batch. More would keep messages waiting in the store behind it.
PAIRS_PER_WRITE = 16
# Batches in flight: some are read while others are written, and `Watermarks` bounds the writes.
CONCURRENT_WRITES = 32
# So many pairs must wait before another batch joins those in flight: a store that keeps up gets one at a time, and
# messages do not wait behind it.
BACKLOG_PER_WRITE = 32
MAX_WAITING = 50_000
MAX_WAITING_PER_USER = 2_000
"""A share: one user's marks do not keep others' waiting."""
MAX_RECENT = 50_000
# The devices of a user may mark different sequences of one chat; bounds those that are kept of each mark.
MAX_CLAIMS = 8

NOTHING_READ: Claim = (Mark.READ, 0)

OnRefused = Callable[[ParleyError], None]
Claims = dict[Claim, OnRefused]


class MarkBuffer:
    """For one event loop."""

    def __init__(self, watermarks: Watermarks, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._watermarks = watermarks
        self._monotonic = monotonic
        self._waiting: dict[Pair, Claims] = {}
        self._waiting_of: Counts[UserId] = Counts()
        # Of those, the pairs to be written now, in order, and a heap of the others with the time from which they are.
        self._due: dict[Pair, None] = {}
        self._delayed: list[tuple[float, Pair]] = []
        # When a pair was written last, and what is known to be stored.
        self._recent: OrderedDict[Pair, tuple[float, Marks]] = OrderedDict()
        # How often in a row the store did not take a pair's marks.
        self._failures: Counts[Pair] = Counts()
        self._is_closing = False
        self._changed = asyncio.Event()
        self._scheduler: asyncio.Task[None] | None = None
        self._writes: set[asyncio.Task[None]] = set()

    def put(
        self,
        user_id: UserId,
        chat_id: ChatId,
        mark: Mark,
        sequence: int,
        *,
        on_refused: OnRefused,
        is_unread: bool = False,
    ) -> None:
        """Note a mark; `on_refused` is called later if it turns out not to be acceptable.

        `is_unread`: a read mark that does not exist becomes 0 with this acknowledgement.
        Raises `ChatNotFound` for what cannot name a chat, `Overloaded` when too many wait.
        """
        if not is_chat_id(chat_id):
            raise ChatNotFound
        pair = (user_id, chat_id)
        written_at, known = self._recent.get(pair, (float("-inf"), Marks()))
        if known.covers(mark, sequence):
            return
        claims = self._waiting.get(pair)
        if claims is None:
            if len(self._waiting) >= MAX_WAITING or self._waiting_of[user_id] >= MAX_WAITING_PER_USER:
                raise Overloaded("Too many marks wait; send it again later", retry_after=1.0)
            claims = self._wait(pair, until=written_at + INTERVAL)
        claims[mark, sequence] = on_refused
        if is_unread and known.read is None:
            claims[NOTHING_READ] = _ignore
        _drop_lowest(claims, mark)
        WAITING.set(len(self._waiting))

    def flush(self, pairs: Iterable[Pair]) -> None:
        """Write these without waiting for their second to pass: their connection is gone."""
        self._due.update((pair, None) for pair in pairs if pair in self._waiting)
        self._changed.set()

    async def close(self) -> None:
        """Write what waits, then stop."""
        self._is_closing = True
        self._changed.set()
        if self._scheduler is not None:
            await asyncio.wait([self._scheduler], timeout=CLOSE_TIMEOUT)

    def _wait(self, pair: Pair, *, until: float) -> Claims:
        claims = self._waiting[pair] = {}
        self._waiting_of[pair[0]] += 1
        self._enqueue(pair, until)
        return claims

    def _enqueue(self, pair: Pair, due_at: float) -> None:
        if due_at <= self._monotonic():
            self._due[pair] = None
        else:
            heapq.heappush(self._delayed, (due_at, pair))
        self._changed.set()
        if self._scheduler is None:
            self._scheduler = asyncio.ensure_future(self._schedule())

    async def _schedule(self) -> None:
        """Start writes until the end, whatever happens: nothing else would write what waits."""
        while True:
            try:
                return await self._start_writes()
            except Exception:
                log.exception("marks are not written for a moment")
                await asyncio.sleep(PAUSE_AFTER_FAILURE)

    async def _start_writes(self) -> None:
        """Keep as many batches in flight as the backlog needs, up to `CONCURRENT_WRITES`."""
        while True:
            self._collect_due()
            if 0 < len(self._due) < PAIRS_PER_WRITE and not self._is_closing:
                await asyncio.sleep(LINGER)
            while self._may_start() and (batch := self._take()):
                self._start(batch)
            if self._is_closing and not self._waiting and not self._writes:
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(self._seconds_until_due()):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _may_start(self) -> bool:
        backlog = len(self._due) + PAIRS_PER_WRITE * len(self._writes)
        return len(self._writes) < min(CONCURRENT_WRITES, 1 + backlog // BACKLOG_PER_WRITE)

    def _collect_due(self) -> None:
        now = float("inf") if self._is_closing else self._monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            _, pair = heapq.heappop(self._delayed)
            if pair in self._waiting:
                self._due[pair] = None

    def _seconds_until_due(self) -> float | None:
        if self._due or not self._delayed:
            return None  # a write that ends, or a mark that arrives, sets `_changed`
        return max(0.0, self._delayed[0][0] - self._monotonic())

    def _take(self) -> dict[Pair, Claims]:
        now = self._monotonic()
        batch: dict[Pair, Claims] = {}
        for pair in list(islice(self._due, PAIRS_PER_WRITE)):
            del self._due[pair]
            batch[pair] = self._waiting.pop(pair)
            self._waiting_of[pair[0]] -= 1
            if not self._waiting_of[pair[0]]:
                del self._waiting_of[pair[0]]
            self._remember(pair, now, Marks())
        WAITING.set(len(self._waiting))
        return batch

    def _remember(self, pair: Pair, now: float, marks: Marks) -> None:
        _, known = self._recent.pop(pair, (now, Marks()))
        self._recent[pair] = (now, known.merged(marks))
        if len(self._recent) > MAX_RECENT:
            self._recent.popitem(last=False)

    def _start(self, batch: dict[Pair, Claims]) -> None:
        write = asyncio.ensure_future(self._write(batch))
        self._writes.add(write)
        write.add_done_callback(self._finish)

    def _finish(self, write: "asyncio.Task[None]") -> None:
        self._writes.discard(write)
        self._changed.set()

    async def _write(self, batch: dict[Pair, Claims]) -> None:
        callbacks = {(pair, claim): refused for pair, claims in batch.items() for claim, refused in claims.items()}
        started = self._monotonic()
        try:
            outcome = await self._watermarks.move_many(batch)
        except ParleyError as error:
            log.warning("the marks of %d users and chats were not written: %s", len(batch), error.detail)
            outcome = Outcome(dict.fromkeys(callbacks, error), {})
        except Exception:
            log.exception("the marks of %d users and chats were not written", len(batch))
            outcome = Outcome(dict.fromkeys(callbacks, ParleyError()), {})
        for pair, marks in outcome.stands.items():
            self._remember(pair, started, marks)
        WRITTEN.inc(len(outcome.stands))
        for pair, claims in batch.items():
            self._conclude(pair, claims, {claim: outcome.refused.get((pair, claim)) for claim in claims})

    def _conclude(self, pair: Pair, claims: Claims, refused: Mapping[Claim, ParleyError | None]) -> None:
        """Write again what the store did not take; tell of everything else that was refused."""
        unwritten = {claim: claims[claim] for claim, error in refused.items() if isinstance(error, Unavailable)}
        if unwritten and NOTHING_READ in claims:
            unwritten[NOTHING_READ] = _ignore
        is_retried = self._retry(pair, unwritten)
        for claim, error in refused.items():
            if error is not None and not (is_retried and claim in unwritten):
                _refuse(claims[claim], error)

    def _retry(self, pair: Pair, claims: Claims) -> bool:
        """Let these marks wait for another write; False if there is none to come."""
        failures = self._failures.pop(pair, 0)
        if not claims or failures >= len(RETRY_AFTER) or self._is_closing:
            return False
        self._failures[pair] = failures + 1
        waiting = self._waiting.get(pair)
        if waiting is None:
            waiting = self._wait(pair, until=self._monotonic() + RETRY_AFTER[failures])
        for claim, on_refused in claims.items():
            waiting.setdefault(claim, on_refused)
        for mark in Mark:
            _drop_lowest(waiting, mark)
        return True


def _drop_lowest(claims: Claims, mark: Mark) -> None:
    """Keep `MAX_CLAIMS` of this mark; how many the other has does not matter, nor `NOTHING_READ` beside it."""
    if len(claims) > MAX_CLAIMS:
        same = sorted(claim for claim in claims if claim[0] is mark and claim != NOTHING_READ)
        for claim in same[:-MAX_CLAIMS]:
            del claims[claim]


def _refuse(on_refused: OnRefused, error: ParleyError) -> None:
    """Whatever becomes of the answer, the other marks of the batch go on."""
    try:
        on_refused(error)
    except Exception as failure:  # noqa: BLE001 - whatever it is, it is that client's alone
        log.warning("a client is not told that a mark was refused: %r", failure)


def _ignore(error: ParleyError) -> None:
    """The acknowledgement beside it is refused for the same reason."""
