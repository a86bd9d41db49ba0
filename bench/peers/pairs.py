"""W1 on the peer: one-to-one messages, archived for sender and receiver before delivery."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter

from bench.connections import drain
from bench.driver import Signals, run_clients
from bench.figures import Figures
from bench.peers.connections import ServerErrors, open_streams
from bench.peers.deployment import PeerDeployment, User
from bench.peers.stanzas import ACK, ACK_REQUEST, ENABLE, ENABLED, MESSAGE, Messages, handled_count, parse_messages
from bench.peers.xmpp import Receive
from bench.timeline import InvalidRun, Timeline
from bench.workloads.pairs import SECONDS, WARM_UP, Samples, figures


@dataclass(frozen=True, slots=True)
class Shard:
    port: int
    users: Sequence[User]
    """Sender, receiver, next sender, and so on."""
    acknowledged: bool
    """Whether senders request an ack after each message (XEP-0198)."""


async def w1_pairs(deployment: PeerDeployment, *, pairs: int = 50) -> Figures:
    """50 sender→receiver pairs; the next send when the receiver has the previous message."""
    shard = Shard(deployment.port, deployment.create_users(2 * pairs), acknowledged=deployment.profile.acknowledges)
    samples, window = await run_clients(deployment, run_client, [shard], warm_up=WARM_UP, seconds=SECONDS)
    measured = figures(samples, window)
    # Each message is archived twice: for the sender and for the receiver.
    deployment.require_archived([user.name for user in shard.users], 2 * samples[0].check.received)
    return measured


async def run_client(shard: Shard, signals: Signals) -> Samples:
    receivers, stopped, errors = shard.users[1::2], signals.stopped, ServerErrors()
    timelines = [Timeline(parse_messages) for _ in receivers]
    messages = [Messages(user.address, kind="chat") for user in receivers]
    acks: list[list[bytes]] = [[] for _ in receivers]
    ack_request = ACK_REQUEST if shard.acknowledged else b""

    def send(pair: int) -> None:
        streams[2 * pair].write(messages[pair].next(perf_counter()) + ack_request)

    def sender(pair: int) -> Receive:
        own_acks = acks[pair]

        def receive(stanza: bytes) -> None:
            if stanza.startswith(ACK):
                own_acks.append(stanza)
            else:
                errors.read(stanza)

        return receive

    def receiver(pair: int) -> Receive:
        timeline = timelines[pair]

        def receive(stanza: bytes) -> None:
            if stanza.startswith(MESSAGE):
                timeline.add_message(stanza, perf_counter())
                if not stopped.is_set():
                    send(pair)
            else:
                errors.read(stanza)

        return receive

    async with open_streams(shard.port, shard.users) as streams:
        for pair in range(len(receivers)):
            if shard.acknowledged:
                streams[2 * pair].write(ENABLE)
                await streams[2 * pair].wait_for(ENABLED)
            streams[2 * pair].set_receiver(sender(pair))
            streams[2 * pair + 1].set_receiver(receiver(pair))
        await signals.ready()
        for pair in range(len(receivers)):
            send(pair)
        await stopped.wait()
        await drain(lambda: sum(map(len, timelines)) + sum(map(len, acks)))
        errors.require_none(streams)
    if shard.acknowledged:
        require_acknowledged(acks, [each.number for each in messages])
    samples = Samples()
    for timeline, sent in zip(timelines, messages, strict=True):
        samples.deliveries += [(at, at - due) for _, due, at in timeline.messages()]
        samples.check += timeline.check(after=0, latest=sent.number)
    if samples.check.duplicates:
        raise InvalidRun(f"{samples.check.duplicates} duplicate messages")
    return samples


def require_acknowledged(acks: Iterable[Sequence[bytes]], sent: Iterable[int]) -> None:
    """Raises `InvalidRun` unless each sender got one ack per message, in order."""
    for number, (own, count) in enumerate(zip(acks, sent, strict=True)):
        if list(map(handled_count, own)) != list(range(1, count + 1)):
            raise InvalidRun(f"sender {number} sent {count} messages and got {len(own)} acks, or out of order")
