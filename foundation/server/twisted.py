"""The event loop of the `web` process: uvloop under Twisted's asyncio reactor.

The first import of Twisted's reactor decides which one is installed: call `install_reactor` before importing daphne.
"""

import asyncio
from typing import Any

import uvloop
from twisted.internet import asyncioreactor
from twisted.internet.main import installReactor


class DirectReactor(asyncioreactor.AsyncioSelectorReactor):
    """Calls readers and writers without Twisted's logging context, which costs 5 % of `web`'s CPU."""

    _asyncioEventloop: asyncio.AbstractEventLoop  # noqa: N815 - Twisted's name
    _readers: dict[Any, int]
    _writers: dict[Any, int]

    def addReader(self, reader: Any) -> None:  # noqa: N802 - Twisted's name
        if reader not in self._readers:
            super().addReader(reader)  # type: ignore[no-untyped-call]
            if (descriptor := self._readers.get(reader)) is not None:
                self._asyncioEventloop.add_reader(descriptor, self._readOrWrite, reader, True)

    def addWriter(self, writer: Any) -> None:  # noqa: N802 - Twisted's name
        if writer not in self._writers:
            super().addWriter(writer)  # type: ignore[no-untyped-call]
            if (descriptor := self._writers.get(writer)) is not None:
                self._asyncioEventloop.add_writer(descriptor, self._readOrWrite, writer, False)


def install_reactor(*, fast: bool) -> None:
    """Use uvloop, and unless switched off by `FAST_SOCKETS=0` the reactor above; else daphne installs Twisted's own."""
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    if fast:
        installReactor(DirectReactor(asyncio.new_event_loop()))  # type: ignore[no-untyped-call]
