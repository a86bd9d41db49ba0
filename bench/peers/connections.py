"""Many XMPP streams in one process: opened with bounded concurrency, closed together."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from bench.connections import CLOSE_DELAY, CONNECT_CONCURRENCY
from bench.peers.deployment import PASSWORD, User
from bench.peers.stanzas import FAILURES, MESSAGE, SUBJECT, join_request
from bench.peers.xmpp import Stream, log_in
from bench.timeline import InvalidRun


@asynccontextmanager
async def open_streams(port: int, users: Sequence[User], *, room: str | None = None) -> AsyncIterator[list[Stream]]:
    """Log in each user, join `room` under the user's name if given, and close all streams at the end."""
    limit, streams = asyncio.Semaphore(CONNECT_CONCURRENCY), dict[str, Stream]()

    async def open_one(user: User) -> None:
        async with limit:
            streams[user.name] = await log_in(port, user.name, PASSWORD)

    try:
        await asyncio.gather(*map(open_one, users))
        if room is not None:
            await _join(room, streams)
        yield [streams[user.name] for user in users]
    finally:
        for stream in streams.values():
            stream.close()
        await asyncio.sleep(CLOSE_DELAY)


async def _join(room: str, streams: Mapping[str, Stream]) -> None:
    """One by one: the first creates the room."""
    for name, stream in streams.items():
        stream.write(join_request(room, name))
        while MESSAGE not in await stream.wait_for(SUBJECT):
            pass


class ServerErrors:
    """Collects error stanzas: a valid run has none."""

    def __init__(self) -> None:
        self.stanzas: list[bytes] = []

    def read(self, stanza: bytes) -> None:
        if any(failure in stanza for failure in FAILURES):
            self.stanzas.append(stanza)

    def require_none(self, streams: Sequence[Stream]) -> None:
        """Raises `InvalidRun` if there are errors or the server has closed a stream."""
        closed = sum(not stream.is_open for stream in streams)
        if self.stanzas or closed:
            first = self.stanzas[0].decode() if self.stanzas else "none"
            raise InvalidRun(f"{len(self.stanzas)} errors, the first: {first}; {closed} streams closed")
