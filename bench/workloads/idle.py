"""W4: what a connection costs that nothing happens on."""

import asyncio

from bench.crowd import connected, ignore, require_open
from bench.figures import Figures
from bench.workloads import Setting

WARM = 50
"""Connections before the first reading, so that what a process makes once is not counted."""
SECONDS = 3.0


async def w4_idle(setting: Setting, *, connections: int = 1_000) -> Figures:
    """1,000 idle connections: the server's memory for each."""
    stage = setting.stage
    await asyncio.to_thread(stage.renew_web)
    people = stage.people(connections // 10)
    tokens = [people[number % len(people)].token for number in range(connections)]
    async with connected(stage.url, tokens[:WARM], [ignore] * WARM):
        before = stage.memory("web")
        async with connected(stage.url, tokens, [ignore] * connections) as wires:
            await asyncio.sleep(1.0)
            each = (stage.memory("web") - before) / connections
            require_open(wires)
            async with stage.metering() as meter:
                await asyncio.sleep(setting.seconds(SECONDS))
    return {"kib_per_connection": each / 1024, **meter.figures(0)}
