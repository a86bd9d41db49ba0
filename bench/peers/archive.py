"""W3 on the peer: users each fetch a room's archive, page after page."""

import asyncio
from collections.abc import Sequence
from time import perf_counter

from bench.figures import Figures, milliseconds
from bench.peers.crowd import Complaints, online
from bench.peers.stage import PeerStage, User
from bench.peers.stanzas import IQ, MESSAGE, Messages, arrivals, last_of_page, page_request
from bench.peers.xmpp import Receive
from bench.timeline import WrongDelivery
from bench.workloads.catch_up import PATIENCE, ROUNDS

AT_ONCE = 100


async def w3_archive(stage: PeerStage, *, members: int = 20, messages: int = 1_000) -> Figures:
    """20 users each fetch the 1,000 messages of a room's archive, in pages of 100."""
    users, room = stage.users(members), stage.room()
    await fill(stage, users[0], room, messages)
    await asyncio.to_thread(stage.settle)
    return await measure(stage, users, room, messages=messages)


async def fill(stage: PeerStage, user: User, room: str, count: int) -> None:
    """By messages of one user, alone in the room, numbered from 1."""
    messages = Messages(room, kind="groupchat")
    async with online(stage.port, [user], room=room) as streams, asyncio.timeout(PATIENCE):
        while messages.number < count:
            for _ in range(min(AT_ONCE, count - messages.number)):
                streams[0].write(messages.next(perf_counter()))
            await streams[0].answer(b" id='%d." % messages.number)


async def measure(stage: PeerStage, users: Sequence[User], room: str, *, messages: int) -> Figures:
    pages, wrong, complaints = list[float](), list[int](), Complaints()
    asked_at, last, done = [0.0] * len(users), [0] * len(users), [asyncio.Event() for _ in users]
    parts: list[list[bytes]] = [[] for _ in users]

    def ask(number: int, after: bytes) -> None:
        asked_at[number] = perf_counter()
        streams[number].write(page_request(room, after))

    def turn(number: int, stanza: bytes) -> None:
        """The page is over."""
        pages.append(perf_counter() - asked_at[number])
        found = [each for each, _ in arrivals(b"".join(parts[number]))] if parts[number] else []
        parts[number].clear()
        if found != list(range(last[number] + 1, last[number] + 1 + len(found))) or not found:
            wrong.append(number)
        last[number] += len(found)
        if last[number] < messages and found:
            ask(number, last_of_page(stanza))
        else:
            done[number].set()

    def receiver(number: int) -> Receive:
        part = parts[number]

        def receive(stanza: bytes) -> None:
            if stanza.startswith(MESSAGE):
                part.append(stanza)
            elif stanza.startswith(IQ):
                complaints.read(stanza)
                turn(number, stanza)

        return receive

    async def everybody() -> None:
        last[:] = [0] * len(users)
        for number in range(len(users)):
            done[number].clear()
            ask(number, b"")
        await asyncio.wait_for(asyncio.gather(*(event.wait() for event in done)), PATIENCE)

    async with online(stage.port, users) as streams:
        for number, stream in enumerate(streams):
            stream.deliver_to(receiver(number))
        await everybody()
        pages.clear()
        async with stage.metering() as meter:
            for _ in range(ROUNDS):
                await everybody()
        complaints.require_none(streams)
    if wrong:
        raise WrongDelivery(f"{len(wrong)} pages that did not go on where the last one ended")
    fetched = ROUNDS * len(users) * messages
    return {"messages_per_s": fetched / meter.seconds, **milliseconds("page", pages), **meter.figures(fetched)}
