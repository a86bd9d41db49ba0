"""W3: members of one chat each fetch what they missed, by sync, page by page."""

import asyncio
from collections.abc import Sequence
from time import perf_counter

from bench.connections import open_connections
from bench.figures import Figures, latency_figures
from bench.frames import SYNC_BATCH, sequences, sync_request
from bench.timeline import InvalidRun
from bench.websocket import Receive
from bench.workloads import RunContext

PASSES = 5
"""Measured after one warm-up pass: a single pass takes a fraction of a second."""
FETCH_TIMEOUT = 120.0


async def w3_catch_up(context: RunContext, *, members: int = 20, messages: int = 1_000) -> Figures:
    """20 members of one chat each fetch 1,000 missed messages by sync, in pages of 100."""
    deployment = context.deployment
    users = deployment.create_users(members)
    chat_id = deployment.create_group(users[0], users[1:])
    context.report(f"  filling a chat with {messages:,} messages")
    deployment.fill(chat_id, users[0].user_id, messages, context.report)
    deployment.wait_until_idle()
    return await measure(context, chat_id, [user.token for user in users], messages=messages)


async def measure(
    context: RunContext, chat_id: str, tokens: Sequence[str], *, after: int = 0, messages: int = 1_000
) -> Figures:
    """Each member fetches the `messages` that follow sequence `after`."""
    members, latest = len(tokens), after + messages
    times, wrong = list[float](), list[int]()
    requested_at, last, done = [0.0] * members, [after] * members, [asyncio.Event() for _ in tokens]

    def request_page(number: int) -> None:
        requested_at[number] = perf_counter()
        sockets[number].write(sync_request(chat_id, last[number]))

    def receiver(number: int) -> Receive:
        def receive(frame: bytes) -> None:
            if not frame.startswith(SYNC_BATCH):
                return
            times.append(perf_counter() - requested_at[number])
            found = sequences(frame)
            if found != list(range(last[number] + 1, last[number] + 1 + len(found))) or not found:
                wrong.append(number)
            last[number] += len(found)
            if last[number] < latest and found:
                request_page(number)
            else:
                done[number].set()

        return receive

    async def fetch_all() -> None:
        last[:] = [after] * members
        for number in range(members):
            done[number].clear()
            request_page(number)
        await asyncio.wait_for(asyncio.gather(*(event.wait() for event in done)), FETCH_TIMEOUT)

    async with open_connections(context.deployment.url, tokens, list(map(receiver, range(members)))) as sockets:
        await fetch_all()
        times.clear()
        async with context.deployment.measure_window() as window:
            for _ in range(PASSES):
                await fetch_all()
    if wrong:
        raise InvalidRun(f"{len(wrong)} pages that did not continue the previous one")
    fetched = PASSES * members * messages
    return {"messages_per_s": fetched / window.seconds, **latency_figures("page", times), **window.figures(fetched)}
