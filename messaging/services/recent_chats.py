"""Notes which chats are written, so that a crash between commit and publish leaves a trace.

The note leaves while the transaction is under way: no message waits for it. The committer notes a chat only when the
last note is no longer good, so a busy chat costs a look into a dictionary, and Redis gets one command for many chats.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from foundation.kernel.clock import Clock
from foundation.kernel.ids import ChatId
from foundation.stores.errors import StoreUnavailable

log = logging.getLogger(__name__)

NOTE_EVERY = 30.0
"""Seconds for which a note of a chat is good."""
CAPACITY = 50_000


class Writer(Protocol):
    """Where the notes go."""

    async def add(self, chat_ids: Collection[ChatId], *, now: float) -> None: ...


class RecentChats:
    """One per process, for its event loop."""

    def __init__(self, writer: Writer, *, clock: Clock, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._writer = writer
        self._clock = clock
        self._monotonic = monotonic
        self.good_until: OrderedDict[ChatId, float] = OrderedDict()
        """By the monotonic clock, for each chat that was noted."""
        self._waiting: set[ChatId] = set()
        self._task: asyncio.Task[None] | None = None

    def note(self, chat_ids: Iterable[ChatId]) -> None:
        """Call it before the chats' transaction is sent. Returns at once."""
        until = self._monotonic() + NOTE_EVERY
        for chat_id in chat_ids:
            self.good_until[chat_id] = until
            self.good_until.move_to_end(chat_id)
            self._waiting.add(chat_id)
        while len(self.good_until) > CAPACITY:
            self.good_until.popitem(last=False)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        """One command at a time; chats that come meanwhile share the next."""
        try:
            while self._waiting:
                chat_ids, self._waiting = self._waiting, set()
                try:
                    await self._writer.add(chat_ids, now=self._clock.now().timestamp())
                except StoreUnavailable as error:
                    log.info("%d chats are not noted: %s", len(chat_ids), error.detail)
                    for chat_id in chat_ids:
                        self.good_until.pop(chat_id, None)
        finally:
            self._task = None
