"""W7: when has the first member of a large group a message, and when the last?"""

import asyncio
from time import perf_counter

from bench.crowd import connected, quiet
from bench.figures import Figures, milliseconds
from bench.frames import MESSAGE, Drafts
from bench.timeline import Account, Timeline
from bench.wire import Receive
from bench.workloads import Setting

WARM_UP = 5
PATIENCE = 30.0


async def w7_large_group(setting: Setting, *, members: int = 1_000, messages: int = 30) -> Figures:
    """A group of 1,000 online members, one message at a time: the first and the last receiver."""
    stage = setting.stage
    setting.report(f"  making {members:,} users")
    people = stage.people(members)
    chat_id = stage.group(people[0], people[1:])
    stage.settle()
    first, last, arrived, due = list[float](), list[float](), 0, 0.0
    timelines, complete, drafts = [Timeline() for _ in people], asyncio.Event(), Drafts(chat_id)

    def receiver(timeline: Timeline) -> Receive:
        def receive(frame: bytes) -> None:
            nonlocal arrived
            if frame.startswith(MESSAGE):
                now = perf_counter()
                timeline.message(frame, now)
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
            wires[0].write(drafts.next(due))
            await asyncio.wait_for(complete.wait(), PATIENCE)

    async with connected(stage.url, [person.token for person in people], list(map(receiver, timelines))) as wires:
        await send(WARM_UP)
        async with stage.metering() as meter:
            await send(messages)
        await quiet(lambda: sum(map(len, timelines)))
    account = Account()
    for timeline in timelines[1:]:
        account += timeline.account(after=0, latest=WARM_UP + messages)
    account.require_right()
    return {
        **milliseconds("first_receiver", first[WARM_UP:]),
        **milliseconds("last_receiver", last[WARM_UP:]),
        **meter.figures(messages),
    }
