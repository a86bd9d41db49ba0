"""W4: the memory of an idle connection."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bench.connections import ignore, open_connections, require_open
from bench.deployment import Deployment
from bench.figures import Figures
from bench.workloads import RunContext

WARM_UP_CONNECTIONS = 50
"""Opened before the first reading, so that one-time allocations are not counted."""
SECONDS = 3.0


async def w4_idle(context: RunContext, *, connections: int = 1_000) -> Figures:
    """1,000 idle connections: the server's memory per connection."""
    deployment = context.deployment
    await asyncio.to_thread(deployment.restart_web)
    users = deployment.create_users(connections // 10)
    tokens = [users[number % len(users)].token for number in range(connections)]
    async with open_idle(deployment, tokens) as kib, deployment.measure_window() as window:
        await asyncio.sleep(context.seconds(SECONDS))
    return {"kib_per_connection": kib, **window.figures(0)}


@asynccontextmanager
async def open_idle(deployment: Deployment, tokens: Sequence[str]) -> AsyncIterator[float]:
    """Yields the memory of each idle connection, in KiB. Raises `InvalidRun` if the server closes one."""
    async with open_connections(deployment.url, tokens[:WARM_UP_CONNECTIONS], [ignore] * WARM_UP_CONNECTIONS):
        before = deployment.memory("web")
        async with open_connections(deployment.url, tokens, [ignore] * len(tokens)) as sockets:
            await asyncio.sleep(1.0)
            yield (deployment.memory("web") - before) / len(tokens) / 1024
            require_open(sockets)
