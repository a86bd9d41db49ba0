"""Calls from any thread into the event loop: as many as wait are made at one wake-up."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)


class Mailbox:
    """Made by the loop's thread. `post` is for any; each thread's calls are made in the order of posting."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._home = threading.get_ident()
        self._waiting: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._is_called = False

    def post(self, call: Callable[..., object], *arguments: object) -> None:
        """At once on the loop's own thread. A loop that is gone has nobody left to be called."""
        if self._loop.is_closed():
            return
        if threading.get_ident() == self._home:
            _make(call, arguments)
            return
        self._waiting.append((call, arguments))
        # Set before the wake-up and cleared before the emptying: whoever finds it set will have his call made.
        if not self._is_called:
            self._is_called = True
            self._loop.call_soon_threadsafe(self._empty)

    def _empty(self) -> None:
        self._is_called = False
        for _ in range(len(self._waiting)):
            _make(*self._waiting.popleft())


def _make(call: Callable[..., object], arguments: tuple[object, ...]) -> None:
    """One that fails keeps no other from being made."""
    try:
        call(*arguments)
    except Exception:
        log.exception("a call into the event loop failed")
