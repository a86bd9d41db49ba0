"""W1: sender→receiver pairs in a closed loop: the next send when the receiver has the previous message."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from bench.connections import ServerErrors, drain, open_connections
from bench.deployment import User
from bench.driver import Signals, run_clients
from bench.figures import Figures, latency_figures
from bench.frames import MESSAGE, Drafts
from bench.timeline import DeliveryCheck, Timeline
from bench.websocket import Receive
from bench.window import Window
from bench.workloads import RunContext

WARM_UP, SECONDS = 2.0, 8.0


@dataclass(frozen=True, slots=True)
class Pair:
    chat_id: str
    sender: User
    receiver: User
    after: int = 0
    """The chat's last sequence before the run."""


@dataclass(frozen=True, slots=True)
class Shard:
    url: str
    pairs: Sequence[Pair]


@dataclass(slots=True)
class Samples:
    deliveries: list[tuple[float, float]] = field(default_factory=list)
    """Arrival time and latency."""
    check: DeliveryCheck = field(default_factory=DeliveryCheck)


async def w1_pairs(context: RunContext, *, pairs: int = 50) -> Figures:
    """50 sender→receiver pairs; the next send when the receiver has the previous message."""
    return await measure(context, create_pairs(context, pairs))


def create_pairs(context: RunContext, count: int) -> list[Pair]:
    users = context.deployment.create_users(2 * count)
    user_pairs = list(zip(users[::2], users[1::2], strict=True))
    chats = context.deployment.create_direct_chats(user_pairs)
    return [Pair(chat_id, *users) for chat_id, users in zip(chats, user_pairs, strict=True)]


async def measure(context: RunContext, pairs: Sequence[Pair]) -> Figures:
    deployment, clients = context.deployment, context.clients
    shards = [Shard(deployment.url, pairs[number::clients]) for number in range(clients)]
    samples, window = await run_clients(
        deployment, run_client, shards, warm_up=context.seconds(WARM_UP), seconds=context.seconds(SECONDS)
    )
    return figures(samples, window)


def figures(samples: Sequence[Samples], window: Window) -> Figures:
    """Raises `InvalidRun`."""
    check = DeliveryCheck()
    for each in samples:
        check += each.check
    check.require_passed()
    latencies = [latency for each in samples for at, latency in each.deliveries if window.covers(at)]
    return {
        "delivered_per_s": len(latencies) / window.seconds,
        **latency_figures("delivery", latencies),
        **window.figures(len(latencies)),
    }


async def run_client(shard: Shard, signals: Signals) -> Samples:
    pairs, stopped, errors = shard.pairs, signals.stopped, ServerErrors()
    timelines = [Timeline() for _ in pairs]
    sent = [0] * len(pairs)
    drafts = [Drafts(pair.chat_id) for pair in pairs]

    def send(number: int) -> None:
        sent[number] += 1
        sockets[2 * number].write(drafts[number].next(perf_counter()))

    def receiver(number: int) -> Receive:
        timeline = timelines[number]

        def receive(frame: bytes) -> None:
            if frame.startswith(MESSAGE):
                timeline.add_message(frame, perf_counter())
                if not stopped.is_set():
                    send(number)

        return receive

    tokens = [token for pair in pairs for token in (pair.sender.token, pair.receiver.token)]
    receivers = [receive for number in range(len(pairs)) for receive in (errors.read, receiver(number))]
    async with open_connections(shard.url, tokens, receivers) as sockets:
        await signals.ready()
        for number in range(len(pairs)):
            send(number)
        await stopped.wait()
        await drain(lambda: sum(map(len, timelines)))
    errors.require_none()
    samples = Samples()
    for pair, timeline, count in zip(pairs, timelines, sent, strict=True):
        samples.deliveries += [(at, at - due) for _, due, at in timeline.messages()]
        samples.check += timeline.check(after=pair.after, latest=pair.after + count)
    return samples
