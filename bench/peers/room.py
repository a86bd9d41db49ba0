"""W2 on the peer: one room that archives each message, then sends it to all; the sender's own copy is its ack."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from bench.connections import drain
from bench.driver import Signals, run_clients
from bench.figures import Figures
from bench.peers.connections import ServerErrors, open_streams
from bench.peers.deployment import PeerDeployment, User
from bench.peers.stanzas import MESSAGE, Messages, parse_messages
from bench.peers.xmpp import Receive
from bench.timeline import InvalidRun, Timeline, check_sequences
from bench.workloads.group import SECONDS, SENDERS, WARM_UP, Delivery, Samples, figures

STRIDE = 10**9
"""A message's number identifies its sender."""


@dataclass(frozen=True, slots=True)
class Shard:
    port: int
    room: str
    users: Sequence[User]
    """The first `SENDERS` of them send."""


async def w2_room(deployment: PeerDeployment, *, members: int = 50) -> Figures:
    """A room of 50, ten of them sending; the next send when the sender sees its previous one."""
    shard = Shard(deployment.port, deployment.new_room(), deployment.create_users(members))
    results, window = await run_clients(deployment, run_client, [shard], warm_up=WARM_UP, seconds=SECONDS)
    measured = figures(results[0], window, others=members - 1)
    deployment.require_archived([shard.room], results[0].latest)
    return measured


async def run_client(shard: Shard, signals: Signals) -> Samples:
    stopped, errors = signals.stopped, ServerErrors()
    timelines = [Timeline(parse_messages) for _ in shard.users]
    messages = {number: Messages(shard.room, kind="groupchat", first=number * STRIDE) for number in range(SENDERS)}

    def send(number: int) -> None:
        streams[number].write(messages[number].next(perf_counter()))

    def receiver(number: int) -> Receive:
        timeline, sends = timelines[number], number in messages
        own = f" from='{shard.room}/{shard.users[number].name}'".encode()

        def receive(stanza: bytes) -> None:
            if stanza.startswith(MESSAGE):
                timeline.add_message(stanza, perf_counter())
                if sends and own in stanza and not stopped.is_set():
                    send(number)
            else:
                errors.read(stanza)

        return receive

    async with open_streams(shard.port, shard.users, room=shard.room) as streams:
        for number, stream in enumerate(streams):
            stream.set_receiver(receiver(number))
        await signals.ready()
        for number in messages:
            send(number)
        await stopped.wait()
        await drain(lambda: sum(map(len, timelines)))
        errors.require_none(streams)
    return _collect(timelines, messages)


def _collect(timelines: Sequence[Timeline], messages: Mapping[int, Messages]) -> Samples:
    """The first member's order of arrival defines the order of the room; all others must have the same."""
    positions = {number: position for position, (number, _, _) in enumerate(timelines[0].messages(), start=1)}
    sent = [number for sender, each in messages.items() for number in range(sender * STRIDE + 1, each.number + 1)]
    if sorted(positions) != sent:
        raise InvalidRun("the first member did not receive what was sent")
    samples = Samples(latest=len(positions))
    for member, timeline in enumerate(timelines):
        for number, due, at in timeline.messages():
            if number // STRIDE == member:
                samples.acks.append((due, at))
                samples.deliveries.setdefault(number, Delivery(due))
            else:
                samples.record(number, due, at)
        order = (positions.get(number, 0) for number, _, _ in timeline.messages())
        samples.check += check_sequences(order, after=0, latest=len(positions))
    if samples.check.duplicates:
        raise InvalidRun(f"{samples.check.duplicates} duplicate messages")
    return samples
