"""Coalesces acknowledgements: the highest valid one of each user and chat is written about once a second.

The first acknowledgement after a pause is written at once. What a crash loses is only repeated by clients.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import Counter, Gauge

from chats.errors import ChatNotFound
from delivery.services.watermarks import Claim, Pair, Watermarks
from foundation.kernel.errors import ParleyError, Unavailable
from foundation.kernel.ids import ChatId, UserId, is_chat_id

log = logging.getLogger(__name__)

WAITING = Gauge("parley_acks_waiting", "Users and chats whose watermark waits to be written.")
WRITTEN = Counter("parley_acks_written_total", "Watermarks written after coalescing.")
INTERVAL = 1.0
CLOSE_TIMEOUT = 5.0
# Messages wait in the store behind large transactions: at 600 messages a second, 50 pairs doubled their p99.
PAIRS_PER_WRITE = 16
CONCURRENT_WRITES = 8
# Seconds before another write joins those in flight: a store that answers sooner gets them one by one.
WRITE_PACE = 0.002
MAX_WAITING = 50_000
MAX_RECENT = 50_000
# The devices of a user may acknowledge different sequences of one chat; bounds those that are kept.
MAX_CLAIMS = 8

OnRefused = Callable[[ParleyError], None]
Claims = dict[int, OnRefused]


class AckBuffer:
    """For one event loop."""

    def __init__(self, watermarks: Watermarks, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._watermarks = watermarks
        self._monotonic = monotonic
        self._waiting: OrderedDict[Pair, Claims] = OrderedDict()
        self._written: OrderedDict[Pair, float] = OrderedDict()
        self._urgent: set[Pair] = set()
        self._is_closing = False
        self._changed = asyncio.Event()
        self._scheduler: asyncio.Task[None] | None = None
        self._writes: set[asyncio.Task[None]] = set()

    def put(self, user_id: UserId, chat_id: ChatId, sequence: int, *, on_refused: OnRefused) -> None:
        """Note an acknowledgement; `on_refused` is called later if it turns out not to be acceptable.

        Raises `ChatNotFound` for what cannot name a chat, `Unavailable` when too many wait.
        """
        if not is_chat_id(chat_id):
            raise ChatNotFound
        pair = (user_id, chat_id)
        claims = self._waiting.get(pair)
        if claims is None:
            if len(self._waiting) >= MAX_WAITING:
                raise Unavailable("Too many acknowledgements wait; acknowledge again later", retry_after=1.0)
            claims = self._waiting[pair] = {}
            self._changed.set()
            if self._scheduler is None:
                self._scheduler = asyncio.ensure_future(self._schedule())
        claims[sequence] = on_refused
        while len(claims) > MAX_CLAIMS:
            del claims[min(claims)]
        WAITING.set(len(self._waiting))

    def flush(self, pairs: Iterable[Pair]) -> None:
        """Write these without waiting for their second to pass: their connection is gone."""
        self._urgent.update(pair for pair in pairs if pair in self._waiting)
        self._changed.set()

    async def close(self) -> None:
        """Write what waits, then stop."""
        self._is_closing = True
        self._changed.set()
        if self._scheduler is not None:
            await asyncio.wait([self._scheduler], timeout=CLOSE_TIMEOUT)

    async def _schedule(self) -> None:
        """Keep up to `CONCURRENT_WRITES` batches in flight, as many as the store's latency needs."""
        while True:
            while len(self._writes) < CONCURRENT_WRITES and (due := self._take_due()):
                self._start(due)
                await asyncio.wait(self._writes, timeout=WRITE_PACE, return_when=asyncio.FIRST_COMPLETED)
            if self._is_closing and not self._waiting and not self._writes:
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(INTERVAL / 4 if self._waiting else None):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _start(self, due: dict[Pair, Claims]) -> None:
        write = asyncio.ensure_future(self._write(due))
        self._writes.add(write)
        write.add_done_callback(self._finish)

    def _finish(self, write: "asyncio.Task[None]") -> None:
        self._writes.discard(write)
        self._changed.set()

    def _take_due(self) -> dict[Pair, Claims]:
        now = self._monotonic()
        due: dict[Pair, Claims] = {}
        for pair in self._waiting:
            is_due = now - self._written.get(pair, -INTERVAL) >= INTERVAL
            if is_due or self._is_closing or pair in self._urgent:
                due[pair] = self._waiting[pair]
                if len(due) == PAIRS_PER_WRITE:
                    break
        for pair in due:
            del self._waiting[pair]
            self._urgent.discard(pair)
            self._written[pair] = now
            self._written.move_to_end(pair)
        while len(self._written) > MAX_RECENT:
            self._written.popitem(last=False)
        WAITING.set(len(self._waiting))
        return due

    async def _write(self, due: dict[Pair, Claims]) -> None:
        callbacks = {(pair, sequence): refused for pair, claims in due.items() for sequence, refused in claims.items()}
        refusals: Mapping[Claim, ParleyError]
        try:
            refusals = await self._watermarks.acknowledge_many({pair: list(claims) for pair, claims in due.items()})
        except ParleyError as error:
            log.warning("%d acknowledgements were not written: %s", len(due), error.detail)
            refusals = dict.fromkeys(callbacks, error)
        except Exception:
            log.exception("%d acknowledgements were not written", len(due))
            refusals = dict.fromkeys(callbacks, ParleyError())
        WRITTEN.inc(len(due) - len({pair for pair, _ in refusals}))
        for claim, reason in refusals.items():
            callbacks[claim](reason)
