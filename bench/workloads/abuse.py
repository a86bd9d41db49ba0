"""G1: W6 at 120 messages a second beside one abusive client of each kind, one after another."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from bench.abusers import ABUSERS, Order, Target, run_abuser
from bench.deployment import Deployment, User
from bench.driver import READY, START, STOP, ClientProcess
from bench.figures import Figures, format_number
from bench.processes import PeakMemory
from bench.timeline import InvalidRun
from bench.workloads import RunContext
from bench.workloads.mixed import CHAT_SIZE, Mixed, split_into_groups

RATE = 120
ABUSER_CHATS, ABUSER_MESSAGES = 40, 1_100
NOBODY = "nobody"
FIGURES = (
    "ack_p99_ms",
    "delivery_p99_ms",
    "web_peak_mib",
    "web_growth_mib",
    "missing",
    "errors",
    "closed",
    "attempts",
    "sent_mib",
)
"""The columns of the table. Missing messages, errors and closed connections are the others', not the abuser's."""
WORST = ("ack_p99_ms", "delivery_p99_ms", "web_peak_mib", "web_growth_mib", "missing")


async def g1_abuse(context: RunContext, *, chats: int = 100, body_mib: int = 200) -> Figures:
    """W6 at 120 messages a second beside one abusive client of each kind: the others' p99 and web's memory."""
    users = context.deployment.create_users(chats * CHAT_SIZE)
    target = _create_target(context.deployment, body_mib)
    by_abuser: dict[str, Figures] = {}
    for name in (NOBODY, *ABUSERS):
        by_abuser[name] = await _measure(context, users, name, target)
        found = (f"{key} {format_number(value)}" for key, value in by_abuser[name].items())
        context.report(f"  beside {name}: {', '.join(found)}")
    for line in table(by_abuser):
        context.report(line)
    return summarise(by_abuser)


def summarise(by_abuser: Mapping[str, Figures]) -> Figures:
    """Each abuser's figures, and for the main ones the worst of all."""
    figures = {f"{name}_{key}": value for name, each in by_abuser.items() for key, value in each.items()}
    abused = [each for name, each in by_abuser.items() if name != NOBODY]
    return figures | {f"worst_{key}": max(each[key] for each in abused if key in each) for key in WORST}


def table(by_abuser: Mapping[str, Figures]) -> list[str]:
    """One row per abuser."""
    rows = [
        [name, *(format_number(each[key]) if key in each else "–" for key in FIGURES)]
        for name, each in by_abuser.items()
    ]
    head = [["abuser", *FIGURES], ["---", *("---:" for _ in FIGURES)]]
    return [f"| {' | '.join(cells)} |" for cells in head + rows]


def _create_target(deployment: Deployment, body_mib: int) -> Target:
    """An abuser with an inbox of many chats, one of them long enough for as many windows as it asks for."""
    abuser, friend = deployment.create_users(2)
    chat_ids = [deployment.create_group(abuser, [friend]) for _ in range(ABUSER_CHATS)]
    deployment.fill(chat_ids[0], abuser.user_id, ABUSER_MESSAGES)
    return Target(deployment.url, abuser.token, chat_ids[0], body_mib)


async def _measure(context: RunContext, users: list[User], name: str, target: Target) -> Figures:
    deployment = context.deployment
    # A process that has served an abuser keeps the memory that it took.
    deployment.restart_web()
    mixed, beside = Mixed(context, split_into_groups(users)), _Beside(deployment, name, target)
    try:
        figures = await mixed.measure(RATE, beside=beside.abuse())
    finally:
        beside.close()
    check = mixed.check()
    if check.out_of_order:
        raise InvalidRun(f"{check.out_of_order} messages out of order beside {name}")
    found = {
        **figures,
        **beside.figures,
        "missing": float(check.missing),
        "errors": float(mixed.errors),
        "closed": float(mixed.closed),
    }
    return {key: found[key] for key in (*FIGURES, "core_share_others") if key in found}


class _Beside:
    """One abuser in a process of its own, and web's memory while it is at work."""

    def __init__(self, deployment: Deployment, name: str, target: Target) -> None:
        self._deployment = deployment
        self._process = None if name == NOBODY else ClientProcess(run_abuser, Order(name, target))
        self.figures: Figures = {}

    @asynccontextmanager
    async def abuse(self) -> AsyncIterator[None]:
        process, memory = self._process, PeakMemory(lambda: self._deployment.memory("web"))
        if process is not None:
            await process.expect(READY)
        before = self._deployment.memory("web")
        async with memory.sampling():
            if process is None:
                yield
            else:
                with self._deployment.clients.including([process.pid]):
                    process.send(START)
                    yield
                    process.send(STOP)
                self.figures |= await process.result()
        self.figures |= {"web_peak_mib": memory.most / 2**20, "web_growth_mib": (memory.most - before) / 2**20}

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
