"""Acknowledgements gather here: the highest true one of each user and chat, written about once a second, many at once.

The first acknowledgement after a pause is written at once. One thread per process does the writing; losing what it
holds costs nothing but a repeated acknowledgement.
"""

import logging
import threading
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
WRITTEN = Counter("parley_acks_written_total", "Watermarks handed to the store after coalescing.")
INTERVAL = 1.0
# A large transaction would keep messages waiting in the store: at 600 messages a second, 50 doubled their p99.
BATCH = 16
MAX_WAITING = 50_000
RECENT = 50_000

# A user's devices may claim different things of one chat; what one of them makes up must not drown the others.
MAX_CLAIMS = 8

Refused = Callable[[ParleyError], None]
Claims = dict[int, Refused]


class AckBuffer:
    """Thread-safe."""

    def __init__(self, watermarks: Watermarks, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._watermarks = watermarks
        self._monotonic = monotonic
        self._waiting: OrderedDict[Pair, Claims] = OrderedDict()
        self._written: OrderedDict[Pair, float] = OrderedDict()
        self._hurried: set[Pair] = set()
        self._closing = False
        self._changed = threading.Condition()
        self._writer = threading.Thread(target=self._write_loop, name="ack-writer", daemon=True)
        self._writer.start()

    def put(self, user_id: UserId, chat_id: ChatId, sequence: int, *, refused: Refused) -> None:
        """Note an acknowledgement; `refused` is called, from another thread, if it turns out not to be acceptable.

        Raises `ChatNotFound` for what cannot name a chat, `Unavailable` when too many wait.
        """
        if not is_chat_id(chat_id):
            raise ChatNotFound
        pair = (user_id, chat_id)
        with self._changed:
            claims = self._waiting.get(pair)
            if claims is None:
                if len(self._waiting) >= MAX_WAITING:
                    raise Unavailable("Too many acknowledgements wait; acknowledge again later", retry_after=1.0)
                claims = self._waiting[pair] = {}
                self._changed.notify()  # one that waits already has the writer's attention
            claims[sequence] = refused
            while len(claims) > MAX_CLAIMS:
                del claims[min(claims)]
            WAITING.set(len(self._waiting))

    def hurry(self, pairs: Iterable[Pair]) -> None:
        """Write these without waiting for their second to pass: their connection is gone."""
        with self._changed:
            self._hurried.update(pair for pair in pairs if pair in self._waiting)
            self._changed.notify()

    def close(self, timeout: float = 5.0) -> None:
        """Write what waits, then stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._writer.join(timeout)

    def _write_loop(self) -> None:
        while True:
            with self._changed:
                while not (due := self._take_due()) and not self._closing:
                    self._changed.wait(INTERVAL / 4 if self._waiting else None)
                if not due:
                    return
            self._write(due)

    def _take_due(self) -> dict[Pair, Claims]:
        now = self._monotonic()
        due: dict[Pair, Claims] = {}
        for pair in self._waiting:
            rested = now - self._written.get(pair, -INTERVAL) >= INTERVAL
            if rested or self._closing or pair in self._hurried:
                due[pair] = self._waiting[pair]
                if len(due) == BATCH:
                    break
        for pair in due:
            del self._waiting[pair]
            self._hurried.discard(pair)
            self._written[pair] = now
            self._written.move_to_end(pair)
        while len(self._written) > RECENT:
            self._written.popitem(last=False)
        WAITING.set(len(self._waiting))
        return due

    def _write(self, due: dict[Pair, Claims]) -> None:
        claimed = {(pair, sequence): refused for pair, claims in due.items() for sequence, refused in claims.items()}
        refusals: Mapping[Claim, ParleyError]
        try:
            refusals = self._watermarks.acknowledge_many({pair: list(claims) for pair, claims in due.items()})
        except ParleyError as error:
            log.warning("%d acknowledgements were not written: %s", len(due), error.detail)
            refusals = dict.fromkeys(claimed, error)
        except Exception:
            log.exception("%d acknowledgements were not written", len(due))
            refusals = dict.fromkeys(claimed, ParleyError())
        WRITTEN.inc(len(due) - len({pair for pair, _ in refusals}))
        for claim, reason in refusals.items():
            claimed[claim](reason)
