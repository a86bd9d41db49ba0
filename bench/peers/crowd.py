"""Many of the peer's users in one process: online a few at a time, in a room or not, gone together."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from bench.crowd import AT_A_TIME
from bench.peers.stage import PASSWORD, User
from bench.peers.stanzas import FAILURES, MESSAGE, SUBJECT, entrance
from bench.peers.xmpp import Stream, log_in
from bench.timeline import WrongDelivery


@asynccontextmanager
async def online(port: int, users: Sequence[User], *, room: str | None = None) -> AsyncIterator[list[Stream]]:
    """A stream for each user, in their order, closed at the end. In a room, each has the user's name."""
    gate, streams = asyncio.Semaphore(AT_A_TIME), dict[str, Stream]()

    async def one(user: User) -> None:
        async with gate:
            streams[user.name] = await log_in(port, user.name, PASSWORD)

    try:
        await asyncio.gather(*map(one, users))
        if room is not None:
            await _enter(room, streams)
        yield [streams[user.name] for user in users]
    finally:
        for stream in streams.values():
            stream.close()
        await asyncio.sleep(0.3)


async def _enter(room: str, streams: Mapping[str, Stream]) -> None:
    """One after the other: the first makes the room."""
    for name, stream in streams.items():
        stream.write(entrance(room, name))
        while MESSAGE not in await stream.answer(SUBJECT):
            pass


class Complaints:
    """The errors of a server that should have had no reason to send any."""

    def __init__(self) -> None:
        self.stanzas: list[bytes] = []

    def read(self, stanza: bytes) -> None:
        if any(failure in stanza for failure in FAILURES):
            self.stanzas.append(stanza)

    def require_none(self, streams: Sequence[Stream]) -> None:
        """Raises `WrongDelivery`, also when the server has closed a stream."""
        closed = sum(not stream.is_open for stream in streams)
        if self.stanzas or closed:
            first = self.stanzas[0].decode() if self.stanzas else "none"
            raise WrongDelivery(f"{len(self.stanzas)} errors, the first: {first}; {closed} streams closed")
