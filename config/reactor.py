"""The event loop of the `web` process: uvloop's, under Twisted's asyncio reactor.

Whoever imports Twisted's reactor first decides which one there is: this comes before anything else of daphne's.
"""

import asyncio

import uvloop

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())

import daphne.server  # noqa: E402, F401 - makes the loop and installs the reactor on it
