"""W7: latency to the first and to the last receiver in a large group."""

import asyncio
from time import perf_counter

from bench.connections import drain, open_connections
from bench.figures import Figures, latency_figures
from bench.frames import MESSAGE, Drafts
from bench.timeline import DeliveryCheck, Timeline
from bench.websocket import Receive
from bench.workloads import RunContext

WARM_UP = 5
DELIVERY_TIMEOUT = 30.0


async def w7_large_group(context: RunContext, *, members: int = 1_000, messages: int = 30) -> Figures:
    """A group of 1,000 online members, one message at a time: the first and the last receiver."""
    deployment = context.deployment
    context.report(f"  creating {members:,} users")
    users = deployment.create_users(members)
    chat_id = deployment.create_group(users[0], users[1:])
    deployment.wait_until_idle()
    first, last, arrived, due = list[float](), list[float](), 0, 0.0
    timelines, complete, drafts = [Timeline() for _ in users], asyncio.Event(), Drafts(chat_id)

    def receiver(timeline: Timeline) -> Receive:
        def receive(frame: bytes) -> None:
            nonlocal arrived
            if frame.startswith(MESSAGE):
                now = perf_counter()
                timeline.add_message(frame, now)
                arrived += 1
                if arrived == 1:
                    first.append(now - due)
                if arrived == members - 1:
                    last.append(now - due)
                    complete.set()

        return receive

    async def send(count: int) -> None:
        nonlocal arrived, due
        for _ in range(count):
            complete.clear()
            arrived, due = 0, perf_counter()
            sockets[0].write(drafts.next(due))
            await asyncio.wait_for(complete.wait(), DELIVERY_TIMEOUT)

    async with open_connections(
        deployment.url, [user.token for user in users], list(map(receiver, timelines))
    ) as sockets:
        await send(WARM_UP)
        async with deployment.measure_window() as window:
            await send(messages)
        await drain(lambda: sum(map(len, timelines)))
    check = DeliveryCheck()
    for timeline in timelines[1:]:
        check += timeline.check(after=0, latest=WARM_UP + messages)
    check.require_passed()
    return {
        **latency_figures("first_receiver", first[WARM_UP:]),
        **latency_figures("last_receiver", last[WARM_UP:]),
        **window.figures(messages),
    }
