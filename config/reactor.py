"""The event loop of the `web` process: uvloop's, under Twisted's asyncio reactor.

Whoever imports Twisted's reactor first decides which one there is: this comes before anything else of daphne's.
"""

import asyncio
from collections.abc import Callable

import uvloop
from twisted.internet import asyncioreactor

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


def _call(_logger: object, call: Callable[..., object], *arguments: object) -> None:
    call(*arguments)


# Around each read and write Twisted puts a context for its log, which costs as much as the read itself: nobody uses it.
asyncioreactor.callWithLogger = _call  # type: ignore[attr-defined]

import daphne.server  # noqa: E402, F401 - makes the loop and installs the reactor on it
