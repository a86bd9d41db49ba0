"""W5: all members of a group send in an open loop, at a fixed rate."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from bench.connections import drain, open_connections
from bench.deployment import User
from bench.driver import Signals, run_clients
from bench.figures import Figures, latency_figures, percentile
from bench.frames import ACK, ERROR, MESSAGE, SEQUENCE, Drafts
from bench.schedule import Schedule
from bench.timeline import DeliveryCheck, InvalidRun, Timeline
from bench.websocket import Receive
from bench.workloads import RunContext

RATES = (500, 1_000, 1_500, 2_000, 2_500, 3_000, 4_000)
ACK_P99_LIMIT = 0.1
WARM_UP, SECONDS, TICK = 1.0, 5.0, 0.002
FULLY_CHECKED = 10
"""Members per client process whose every sequence is checked; for the others only the count is."""


@dataclass(frozen=True, slots=True)
class Shard:
    url: str
    chat_id: str
    tokens: Sequence[str]
    rate: float
    number: int


@dataclass(slots=True)
class Samples:
    offered: list[float] = field(default_factory=list)
    acks: list[tuple[float, float]] = field(default_factory=list)
    """Due time and latency of each ack."""
    received: list[int] = field(default_factory=list)
    """Messages per member, its own included."""
    check: DeliveryCheck = field(default_factory=DeliveryCheck)
    errors: int = 0
    closed: int = 0
    """Connections closed by the server."""

    def __iadd__(self, other: "Samples") -> "Samples":
        self.offered += other.offered
        self.acks += other.acks
        self.received += other.received
        self.check += other.check
        self.errors += other.errors
        self.closed += other.closed
        return self


async def w5_hot_chat(context: RunContext, *, members: int = 200) -> Figures:
    """200 members of a group send in an open loop: the best rate that is all durable with p99 ack < 100 ms."""
    users = context.deployment.create_users(members)
    best, sustained, failed = None, 0.0, 0.0
    for rate in RATES:
        step = await _offer(context, users, rate)
        if not step.sustained:
            failed = rate
            break
        best, sustained = step, rate
    if failed:
        step = await _offer(context, users, (sustained + failed) / 2)
        best = step if step.sustained or best is None else best
    # If no rate was sustained, report the last step's costs and a rate of zero.
    return step.figures | {"durable_per_s": 0.0} if best is None or not best.sustained else best.figures


@dataclass(frozen=True, slots=True)
class Step:
    sustained: bool
    figures: Figures


async def _offer(context: RunContext, users: Sequence[User], rate: float) -> Step:
    deployment, clients = context.deployment, context.clients
    chat_id, tokens = deployment.create_group(users[0], users[1:]), [user.token for user in users]
    shards = [
        Shard(deployment.url, chat_id, tokens[number::clients], rate / clients, number) for number in range(clients)
    ]
    results, window = await run_clients(
        deployment, run_client, shards, warm_up=context.seconds(WARM_UP), seconds=context.seconds(SECONDS)
    )
    total = results[0]
    for samples in results[1:]:
        total += samples
    offered = sum(map(window.covers, total.offered))
    durable = sum(window.covers(due + latency) for due, latency in total.acks)
    acks = [latency for due, latency in total.acks if window.covers(due)]
    ack_p99 = percentile(acks, 0.99)
    context.report(
        f"  {rate:,.0f}/s: offered {offered / window.seconds:,.0f}/s, durable {durable / window.seconds:,.0f}/s, "
        f"ack p50 {percentile(acks, 0.5) * 1000:.0f} ms, p99 {ack_p99 * 1000:.0f} ms; "
        f"{total.errors} errors, {total.closed} connections closed"
    )
    failed = total.errors or total.closed or len(total.acks) < len(total.offered)
    if not failed:
        _require_complete(total)
    figures = {
        "durable_per_s": durable / window.seconds,
        "offered_per_s": offered / window.seconds,
        **latency_figures("ack", acks),
        **window.figures(durable),
    }
    return Step(not failed and ack_p99 < ACK_P99_LIMIT, figures)


def _require_complete(samples: Samples) -> None:
    """Raises `InvalidRun` if a member received fewer messages than were sent."""
    samples.check.require_passed()
    wrong = [count for count in samples.received if count < len(samples.offered)]
    if wrong:
        raise InvalidRun(f"{len(wrong)} members have fewer than the {len(samples.offered)} messages sent")


async def run_client(shard: Shard, signals: Signals) -> Samples:
    samples, timelines = Samples(), [Timeline() for _ in shard.tokens]
    received = [0] * len(shard.tokens)
    drafts = Drafts(shard.chat_id, first=shard.number * 10**9)
    rng = random.Random(shard.number)  # noqa: S311 - not a secret

    def receiver(number: int) -> Receive:
        timeline, fully_checked = timelines[number], number < FULLY_CHECKED

        def receive(frame: bytes) -> None:
            if frame.startswith(MESSAGE):
                received[number] += frame.count(SEQUENCE)
                if fully_checked:
                    timeline.add_message(frame, perf_counter())
            elif frame.startswith(ACK):
                received[number] += 1
                timeline.add_ack(frame, perf_counter())
            elif frame.startswith(ERROR):
                samples.errors += 1

        return receive

    async with open_connections(shard.url, shard.tokens, list(map(receiver, range(len(shard.tokens))))) as sockets:
        await signals.ready()
        schedule = Schedule(shard.rate, perf_counter())
        while not signals.stopped.is_set():
            for due in schedule.due(perf_counter()):
                sockets[rng.randrange(len(sockets))].write(drafts.next(due))
                samples.offered.append(due)
            await asyncio.sleep(TICK)
        await drain(lambda: sum(received))
        samples.closed = sum(not socket.is_open for socket in sockets.values())
    samples.received = received
    samples.acks = [(due, at - due) for timeline in timelines for _, due, at in timeline.acks()]
    latest = max((sequence for timeline in timelines for sequence, _, _ in timeline.acks()), default=0)
    for timeline in timelines[:FULLY_CHECKED]:
        samples.check += timeline.check(after=0, latest=latest)
    return samples
