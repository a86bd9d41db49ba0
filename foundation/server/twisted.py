"""The event loop of the `web` process: uvloop under Twisted's asyncio reactor.

The first import of Twisted's reactor decides which one is installed: import this before daphne.
"""

import asyncio

import uvloop

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())

import daphne.server  # noqa: E402, F401 - creates the loop and installs the reactor on it
