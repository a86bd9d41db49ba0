"""Calls from other threads into the event loop: as many as wait are made at one wake-up."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)


class Mailbox:
    """`post` is for any thread; the calls are made on the loop's, in the order of posting."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._is_called = False

    def post(self, call: Callable[..., object], *arguments: object) -> None:
        """A loop that is gone has nobody left to be called."""
        self._waiting.append((call, arguments))
        # Set before the wake-up and cleared before the emptying: whoever finds it set will have his call made.
        if not self._is_called and not self._loop.is_closed():
            self._is_called = True
            self._loop.call_soon_threadsafe(self._empty)

    def _empty(self) -> None:
        self._is_called = False
        for _ in range(len(self._waiting)):
            call, arguments = self._waiting.popleft()
            try:
                call(*arguments)
            except Exception:
                log.exception("a call from another thread failed")
