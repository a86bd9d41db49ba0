"""W1: sender→receiver pairs; the next send when the receiver has the previous one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from bench.crowd import Complaints, connected, quiet
from bench.figures import Figures, milliseconds
from bench.frames import MESSAGE, Drafts
from bench.meter import Meter
from bench.players import Cue, perform
from bench.timeline import Account, Timeline
from bench.wire import Receive
from bench.workloads import Setting

WARM_UP, SECONDS = 2.0, 8.0


@dataclass(frozen=True, slots=True)
class Pair:
    chat_id: str
    sender: str
    receiver: str
    after: int = 0
    """The chat's last sequence so far."""


@dataclass(frozen=True, slots=True)
class Part:
    url: str
    pairs: Sequence[Pair]


@dataclass(slots=True)
class Played:
    arrived: list[tuple[float, float]] = field(default_factory=list)
    """When, and how long after it was sent."""
    account: Account = field(default_factory=Account)


async def w1_pairs(setting: Setting, *, pairs: int = 50) -> Figures:
    """50 sender→receiver pairs; the next send when the receiver has the previous one."""
    return await measure(setting, make_pairs(setting, pairs))


def make_pairs(setting: Setting, count: int) -> list[Pair]:
    people = setting.stage.people(2 * count)
    couples = list(zip(people[::2], people[1::2], strict=True))
    chats = setting.stage.directs(couples)
    return [Pair(chat_id, one.token, other.token) for chat_id, (one, other) in zip(chats, couples, strict=True)]


async def measure(setting: Setting, pairs: Sequence[Pair]) -> Figures:
    stage, clients = setting.stage, setting.clients
    parts = [Part(stage.url, pairs[number::clients]) for number in range(clients)]
    played, meter = await perform(
        stage, play, parts, warm_up=setting.seconds(WARM_UP), seconds=setting.seconds(SECONDS)
    )
    return figures(played, meter)


def figures(played: Sequence[Played], meter: Meter) -> Figures:
    """Raises `WrongDelivery`."""
    account = Account()
    for each in played:
        account += each.account
    account.require_right()
    latencies = [took for each in played for at, took in each.arrived if meter.covers(at)]
    return {
        "delivered_per_s": len(latencies) / meter.seconds,
        **milliseconds("delivery", latencies),
        **meter.figures(len(latencies)),
    }


async def play(part: Part, cue: Cue) -> Played:
    pairs, stopped, complaints = part.pairs, cue.stopped, Complaints()
    timelines = [Timeline() for _ in pairs]
    sent = [0] * len(pairs)
    drafts = [Drafts(pair.chat_id) for pair in pairs]

    def send(pair: int) -> None:
        sent[pair] += 1
        wires[2 * pair].write(drafts[pair].next(perf_counter()))

    def receiver(pair: int) -> Receive:
        timeline = timelines[pair]

        def receive(frame: bytes) -> None:
            if frame.startswith(MESSAGE):
                timeline.message(frame, perf_counter())
                if not stopped.is_set():
                    send(pair)

        return receive

    tokens = [token for pair in pairs for token in (pair.sender, pair.receiver)]
    receivers = [receive for pair in range(len(pairs)) for receive in (complaints.read, receiver(pair))]
    async with connected(part.url, tokens, receivers) as wires:
        await cue.ready()
        for pair in range(len(pairs)):
            send(pair)
        await stopped.wait()
        await quiet(lambda: sum(map(len, timelines)))
    complaints.require_none()
    played = Played()
    for place, timeline, count in zip(pairs, timelines, sent, strict=True):
        played.arrived += [(at, at - due) for _, due, at in timeline.live()]
        played.account += timeline.account(after=place.after, latest=place.after + count)
    return played
