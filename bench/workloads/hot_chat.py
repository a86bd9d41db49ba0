"""W5: everyone of a group sends, at a given rate whatever comes back."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from bench.crowd import connected, quiet
from bench.figures import Figures, milliseconds, percentile
from bench.frames import ACK, ERROR, MESSAGE, SEQUENCE, Drafts
from bench.players import Cue, perform
from bench.schedule import Schedule
from bench.timeline import Account, Timeline, WrongDelivery
from bench.wire import Receive
from bench.workloads import Setting

RATES = (500, 1_000, 1_500, 2_000, 2_500, 3_000, 4_000)
LATE = 0.1
WARM_UP, SECONDS, TICK = 1.0, 5.0, 0.002
READ_IN_FULL = 10
"""So many of each process's members check every sequence; of the others, only the count is checked."""


@dataclass(frozen=True, slots=True)
class Part:
    url: str
    chat_id: str
    tokens: Sequence[str]
    rate: float
    number: int


@dataclass(slots=True)
class Played:
    offered: list[float] = field(default_factory=list)
    acks: list[tuple[float, float]] = field(default_factory=list)
    """When it was due, how long after that it was acknowledged."""
    received: list[int] = field(default_factory=list)
    """By each member, its own messages included."""
    account: Account = field(default_factory=Account)
    errors: int = 0
    lost: int = 0
    """Connections that the server closed."""

    def __iadd__(self, other: "Played") -> "Played":
        self.offered += other.offered
        self.acks += other.acks
        self.received += other.received
        self.account += other.account
        self.errors += other.errors
        self.lost += other.lost
        return self


async def w5_hot_chat(setting: Setting, *, members: int = 200) -> Figures:
    """200 members send into their group in an open loop: the best rate that is all durable with p99 ack < 100 ms."""
    people = setting.stage.people(members)
    tokens = [person.token for person in people]
    best, good, bad = None, 0.0, 0.0
    for rate in RATES:
        step = await _offer(setting, setting.stage.group(people[0], people[1:]), tokens, rate)
        if not step.kept_up:
            bad = rate
            break
        best, good = step, rate
    if bad:
        step = await _offer(setting, setting.stage.group(people[0], people[1:]), tokens, (good + bad) / 2)
        best = step if step.kept_up or best is None else best
    # Too much from the first step on: the costs of a message, and no rate that was kept up.
    return step.figures | {"durable_per_s": 0.0} if best is None or not best.kept_up else best.figures


@dataclass(frozen=True, slots=True)
class Step:
    kept_up: bool
    figures: Figures


async def _offer(setting: Setting, chat_id: str, tokens: Sequence[str], rate: float) -> Step:
    clients = setting.clients
    parts = [
        Part(setting.stage.url, chat_id, tokens[number::clients], rate / clients, number) for number in range(clients)
    ]
    results, meter = await perform(
        setting.stage, play, parts, warm_up=setting.seconds(WARM_UP), seconds=setting.seconds(SECONDS)
    )
    whole = results[0]
    for played in results[1:]:
        whole += played
    offered = sum(map(meter.covers, whole.offered))
    durable = sum(meter.covers(due + took) for due, took in whole.acks)
    acks = [took for due, took in whole.acks if meter.covers(due)]
    late = percentile(acks, 0.99)
    setting.report(
        f"  {rate:,.0f}/s: offered {offered / meter.seconds:,.0f}/s, durable {durable / meter.seconds:,.0f}/s, "
        f"ack p50 {percentile(acks, 0.5) * 1000:.0f} ms, p99 {late * 1000:.0f} ms; "
        f"{whole.errors} errors, {whole.lost} connections closed"
    )
    refused = whole.errors or whole.lost or len(whole.acks) < len(whole.offered)
    if not refused:
        _require_complete(whole)
    figures = {
        "durable_per_s": durable / meter.seconds,
        "offered_per_s": offered / meter.seconds,
        **milliseconds("ack", acks),
        **meter.figures(durable),
    }
    return Step(not refused and late < LATE, figures)


def _require_complete(played: Played) -> None:
    """Raises `WrongDelivery`. Everyone has as many messages as were sent, repeats aside."""
    played.account.require_right()
    wrong = [count for count in played.received if count < len(played.offered)]
    if wrong:
        raise WrongDelivery(f"{len(wrong)} members have fewer than the {len(played.offered)} messages sent")


async def play(part: Part, cue: Cue) -> Played:
    played, timelines = Played(), [Timeline() for _ in part.tokens]
    received = [0] * len(part.tokens)
    drafts = Drafts(part.chat_id, first=part.number * 10**9)
    dice = random.Random(part.number)  # noqa: S311 - not a secret

    def receiver(number: int) -> Receive:
        timeline, in_full = timelines[number], number < READ_IN_FULL

        def receive(frame: bytes) -> None:
            if frame.startswith(MESSAGE):
                received[number] += frame.count(SEQUENCE)
                if in_full:
                    timeline.message(frame, perf_counter())
            elif frame.startswith(ACK):
                received[number] += 1
                timeline.ack(frame, perf_counter())
            elif frame.startswith(ERROR):
                played.errors += 1

        return receive

    async with connected(part.url, part.tokens, [receiver(number) for number in range(len(part.tokens))]) as wires:
        await cue.ready()
        schedule = Schedule(part.rate, perf_counter())
        while not cue.stopped.is_set():
            for due in schedule.due(perf_counter()):
                wires[dice.randrange(len(wires))].write(drafts.next(due))
                played.offered.append(due)
            await asyncio.sleep(TICK)
        await quiet(lambda: sum(received))
        played.lost = sum(not wire.is_open for wire in wires.values())
    played.received = received
    played.acks = [(due, at - due) for timeline in timelines for _, due, at in timeline.own()]
    latest = max((sequence for timeline in timelines for sequence, _, _ in timeline.own()), default=0)
    for timeline in timelines[:READ_IN_FULL]:
        played.account += timeline.account(after=0, latest=latest)
    return played
