"""W3 on the peer: users each fetch a room's archive, page by page."""

import asyncio
from collections.abc import Sequence
from time import perf_counter

from bench.figures import Figures, latency_figures
from bench.peers.connections import ServerErrors, open_streams
from bench.peers.deployment import PeerDeployment, User
from bench.peers.stanzas import IQ, MESSAGE, Messages, last_archive_id, page_request, parse_messages
from bench.peers.xmpp import Receive
from bench.timeline import InvalidRun
from bench.workloads.catch_up import FETCH_TIMEOUT, PASSES

FILL_BATCH = 100


async def w3_archive(deployment: PeerDeployment, *, members: int = 20, messages: int = 1_000) -> Figures:
    """20 users each fetch the 1,000 messages of a room's archive, in pages of 100."""
    users, room = deployment.create_users(members), deployment.new_room()
    await fill(deployment, users[0], room, messages)
    await asyncio.to_thread(deployment.wait_until_idle)
    return await measure(deployment, users, room, messages=messages)


async def fill(deployment: PeerDeployment, user: User, room: str, count: int) -> None:
    """Archive messages of one user, alone in the room, numbered from 1."""
    messages = Messages(room, kind="groupchat")
    async with open_streams(deployment.port, [user], room=room) as streams, asyncio.timeout(FETCH_TIMEOUT):
        while messages.number < count:
            for _ in range(min(FILL_BATCH, count - messages.number)):
                streams[0].write(messages.next(perf_counter()))
            await streams[0].wait_for(b" id='%d." % messages.number)


async def measure(deployment: PeerDeployment, users: Sequence[User], room: str, *, messages: int) -> Figures:
    times, wrong, errors = list[float](), list[int](), ServerErrors()
    requested_at, last, done = [0.0] * len(users), [0] * len(users), [asyncio.Event() for _ in users]
    pages: list[list[bytes]] = [[] for _ in users]

    def request_page(number: int, after: bytes) -> None:
        requested_at[number] = perf_counter()
        streams[number].write(page_request(room, after))

    def finish_page(number: int, stanza: bytes) -> None:
        times.append(perf_counter() - requested_at[number])
        found = [each for each, _ in parse_messages(b"".join(pages[number]))] if pages[number] else []
        pages[number].clear()
        if found != list(range(last[number] + 1, last[number] + 1 + len(found))) or not found:
            wrong.append(number)
        last[number] += len(found)
        if last[number] < messages and found:
            request_page(number, last_archive_id(stanza))
        else:
            done[number].set()

    def receiver(number: int) -> Receive:
        page = pages[number]

        def receive(stanza: bytes) -> None:
            if stanza.startswith(MESSAGE):
                page.append(stanza)
            elif stanza.startswith(IQ):
                errors.read(stanza)
                finish_page(number, stanza)

        return receive

    async def fetch_all() -> None:
        last[:] = [0] * len(users)
        for number in range(len(users)):
            done[number].clear()
            request_page(number, b"")
        await asyncio.wait_for(asyncio.gather(*(event.wait() for event in done)), FETCH_TIMEOUT)

    async with open_streams(deployment.port, users) as streams:
        for number, stream in enumerate(streams):
            stream.set_receiver(receiver(number))
        await fetch_all()
        times.clear()
        async with deployment.measure_window() as window:
            for _ in range(PASSES):
                await fetch_all()
        errors.require_none(streams)
    if wrong:
        raise InvalidRun(f"{len(wrong)} pages that did not continue the previous one")
    fetched = PASSES * len(users) * messages
    return {"messages_per_s": fetched / window.seconds, **latency_figures("page", times), **window.figures(fetched)}
