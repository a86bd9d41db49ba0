"""W2: a group of online members in a closed loop: some send, the next send on the ack of the previous one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from bench.connections import ServerErrors, drain, open_connections
from bench.driver import Signals, run_clients
from bench.figures import Figures, latency_figures
from bench.frames import ACK, MESSAGE, Drafts
from bench.timeline import DeliveryCheck, InvalidRun, Timeline
from bench.websocket import Receive
from bench.window import Window
from bench.workloads import RunContext

WARM_UP, SECONDS = 2.0, 8.0
SENDERS = 10


@dataclass(frozen=True, slots=True)
class Group:
    chat_id: str
    tokens: Sequence[str]
    after: int = 0
    """The chat's last sequence before the run."""


@dataclass(frozen=True, slots=True)
class Shard:
    url: str
    group: Group
    members: Sequence[int]
    """Indices of the members in this shard. Members with an index below `SENDERS` send."""


@dataclass(slots=True)
class Delivery:
    """One message: when it was sent, how many members received it, and when the last one did."""

    due: float
    receivers: int = 0
    last_at: float = 0.0

    def add(self, receivers: int, last_at: float) -> None:
        self.receivers += receivers
        self.last_at = max(self.last_at, last_at)


@dataclass(slots=True)
class Samples:
    acks: list[tuple[float, float]] = field(default_factory=list)
    """When each acknowledged message was sent, and when its ack arrived."""
    delivered_at: list[float] = field(default_factory=list)
    deliveries: dict[int, Delivery] = field(default_factory=dict)
    latest: int = 0
    check: DeliveryCheck = field(default_factory=DeliveryCheck)
    errors: list[bytes] = field(default_factory=list)
    """Error frames."""

    def record(self, sequence: int, due: float, at: float) -> None:
        self.delivered_at.append(at)
        self.deliveries.setdefault(sequence, Delivery(due)).add(1, at)

    def __iadd__(self, other: "Samples") -> "Samples":
        self.acks += other.acks
        self.delivered_at += other.delivered_at
        for sequence, delivery in other.deliveries.items():
            self.deliveries.setdefault(sequence, Delivery(delivery.due)).add(delivery.receivers, delivery.last_at)
        self.check += other.check
        self.errors += other.errors
        return self


async def w2_group(context: RunContext, *, members: int = 50) -> Figures:
    """A group of 50 online members, ten of them sending; the next send on the ack of the previous one."""
    users = context.deployment.create_users(members)
    chat_id = context.deployment.create_group(users[0], users[1:])
    return await measure(context, Group(chat_id, [user.token for user in users]))


async def measure(context: RunContext, group: Group) -> Figures:
    """Raises `InvalidRun`, also if the server sent errors."""
    samples, window = await run(context, group)
    ServerErrors(samples.errors).require_none()
    return figures(samples, window, others=len(group.tokens) - 1)


async def run(context: RunContext, group: Group) -> tuple[Samples, Window]:
    """Raises `InvalidRun`. A sender that gets an error goes on with its next message."""
    deployment, members = context.deployment, range(len(group.tokens))
    shards = [Shard(deployment.url, group, members[number :: context.clients]) for number in range(context.clients)]
    results, window = await run_clients(
        deployment, run_client, shards, warm_up=context.seconds(WARM_UP), seconds=context.seconds(SECONDS)
    )
    if len({samples.latest for samples in results}) != 1:
        raise InvalidRun("the last messages did not reach every client process")
    total = results[0]
    for samples in results[1:]:
        total += samples
    return total, window


def figures(samples: Samples, window: Window, *, others: int) -> Figures:
    """`others`: how many members receive each message. Raises `InvalidRun`."""
    samples.check.require_passed()
    acks = [at - due for due, at in samples.acks if window.covers(at)]
    measured = [delivery for delivery in samples.deliveries.values() if window.covers(delivery.due)]
    complete = [delivery.last_at - delivery.due for delivery in measured if delivery.receivers >= others]
    return {
        "accepted_per_s": len(acks) / window.seconds,
        "deliveries_per_s": sum(map(window.covers, samples.delivered_at)) / window.seconds,
        **latency_figures("last_receiver", complete),
        **latency_figures("ack", acks),
        **window.figures(len(acks)),
    }


async def run_client(shard: Shard, signals: Signals) -> Samples:
    group, stopped, errors = shard.group, signals.stopped, ServerErrors()
    timelines = {number: Timeline() for number in shard.members}
    senders = {
        number: (index, Drafts(group.chat_id, first=number * 10**9))
        for index, number in enumerate(shard.members)
        if number < SENDERS
    }

    def send(number: int) -> None:
        index, drafts = senders[number]
        sockets[index].write(drafts.next(perf_counter()))

    def receiver(number: int) -> Receive:
        timeline = timelines[number]

        def receive(frame: bytes) -> None:
            if frame.startswith(MESSAGE):
                timeline.add_message(frame, perf_counter())
            elif frame.startswith(ACK):
                timeline.add_ack(frame, perf_counter())
                if not stopped.is_set():
                    send(number)
            elif errors.read(frame) and not stopped.is_set():
                send(number)

        return receive

    tokens = [group.tokens[number] for number in shard.members]
    async with open_connections(shard.url, tokens, [receiver(number) for number in shard.members]) as sockets:
        await signals.ready()
        for number in senders:
            send(number)
        await stopped.wait()
        await drain(lambda: sum(map(len, timelines.values())))
    samples = _collect(list(timelines.values()), after=group.after)
    samples.errors = errors.frames
    return samples


def _collect(timelines: Sequence[Timeline], *, after: int) -> Samples:
    samples = Samples()
    for timeline in timelines:
        for sequence, due, at in timeline.messages():
            samples.record(sequence, due, at)
        for sequence, due, at in timeline.acks():
            samples.deliveries.setdefault(sequence, Delivery(due))
            samples.acks.append((due, at))
    samples.latest = max(samples.deliveries, default=after)
    for timeline in timelines:
        samples.check += timeline.check(after=after, latest=samples.latest)
    return samples
