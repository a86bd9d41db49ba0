"""W9: many idle connections, all of which reconnect within ten seconds, while others go on chatting."""

import asyncio
import random
import resource
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter

from bench.connections import ignore, open_connections, require_open
from bench.deployment import Deployment, User
from bench.driver import READY, START, ClientProcess, Signals
from bench.figures import Figures, percentile
from bench.processes import PeakMemory
from bench.timeline import InvalidRun
from bench.workloads import RunContext
from bench.workloads.idle import WARM_UP_CONNECTIONS
from bench.workloads.mixed import CHAT_SIZE, Mixed, split_into_groups
from bench.workloads.storm import ReconnectingClient

RECONNECT_SECONDS = 10.0
CONNECTIONS_PER_USER, GROUP_SIZE, MISSED = 10, 10, 20
RATE = 120
SPARE_FILES = 1_500
RECOVERY_TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class Crowd:
    """A connection for each token, and the chat that it catches up with."""

    url: str
    places: Sequence[tuple[str, str]]
    seconds: float
    """All reconnect within this time, each at a random moment."""


@dataclass(frozen=True, slots=True)
class Reconnected:
    """Seconds until each connection was current, and what it took."""

    durations: Sequence[float]
    retries: int
    errors: int


async def w9_mass_reconnect(context: RunContext, *, connections: int = 10_000, chats: int = 100) -> Figures:
    """10,000 idle connections, all of which reconnect within 10 s beside W6 at 120/s: memory, time until current."""
    _require_files(connections)
    deployment = context.deployment
    await asyncio.to_thread(deployment.restart_web)
    crowd = _create_crowd(context, connections)
    others = Mixed(context, split_into_groups(deployment.create_users(chats * CHAT_SIZE)), reconnect_share=0)
    async with open_connections(
        deployment.url, [crowd.places[0][0]] * WARM_UP_CONNECTIONS, [ignore] * WARM_UP_CONNECTIONS
    ):
        before = deployment.memory("web")
        process = ClientProcess(reconnect_all, crowd)
        try:
            await process.expect(READY)
            context.report(f"  {connections:,} are connected")
            each = (deployment.memory("web") - before) / connections
            memory = PeakMemory(lambda: deployment.memory("web"))
            async with memory.sampling():
                figures = await others.measure(RATE, beside=_reconnecting(deployment, process))
                reconnected: Reconnected = await process.result()
        finally:
            process.close()
    others.require_passed()
    return {
        "kib_per_connection": each / 1024,
        "all_current_s": max(reconnected.durations),
        "current_p50_s": percentile(reconnected.durations, 0.5),
        "web_growth_mib": (memory.most - before) / 2**20,
        "retries": float(reconnected.retries),
        "errors": float(reconnected.errors),
        **{f"others_{name}": value for name, value in figures.items()},
    }


def _create_crowd(context: RunContext, connections: int) -> Crowd:
    deployment, count = context.deployment, max(connections // CONNECTIONS_PER_USER, GROUP_SIZE)
    context.report(f"  creating {count:,} users")
    users = deployment.create_users(count)
    chats: dict[str, str] = {}
    for first in range(0, count, GROUP_SIZE):
        chats |= _create_chat(deployment, users[first : first + GROUP_SIZE])
    places = [(token, chats[token]) for token in (users[number % count].token for number in range(connections))]
    return Crowd(deployment.url, places, context.seconds(RECONNECT_SECONDS))


def _create_chat(deployment: Deployment, members: Sequence[User]) -> dict[str, str]:
    chat_id = deployment.create_group(members[0], members[1:])
    deployment.fill(chat_id, members[0].user_id, MISSED)
    return {member.token: chat_id for member in members}


@asynccontextmanager
async def _reconnecting(deployment: Deployment, process: "ClientProcess[Crowd, Reconnected]") -> AsyncIterator[None]:
    with deployment.clients.including([process.pid]):
        process.send(START)
        yield


async def reconnect_all(crowd: Crowd, signals: Signals) -> Reconnected:
    """Connect all and stay idle until the start; then disconnect, reconnect and catch up. Runs in its own process."""
    tokens = [token for token, _ in crowd.places]
    async with open_connections(crowd.url, tokens, [ignore] * len(tokens)) as sockets:
        await signals.ready()
        require_open(sockets)
    rng, started = random.Random(0), perf_counter()  # noqa: S311 - not a secret
    clients = [ReconnectingClient(crowd.url, *place, MISSED, timeout=RECOVERY_TIMEOUT) for place in crowd.places]
    try:
        await asyncio.gather(*(_reconnect(client, rng.uniform(0, crowd.seconds)) for client in clients))
    finally:
        for client in clients:
            client.close()
    return Reconnected(
        durations=[client.current_at - started for client in clients],
        retries=sum(client.attempts - 1 for client in clients),
        errors=sum(client.errors for client in clients),
    )


async def _reconnect(client: ReconnectingClient, delay: float) -> None:
    await asyncio.sleep(delay)
    await client.run()


def _require_files(connections: int) -> None:
    """Raises `InvalidRun` unless a process may have so many open sockets."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files < connections + SPARE_FILES:
        raise InvalidRun(f"{connections} connections need `ulimit -n {connections + SPARE_FILES}`, not {files}")
