"""W1 on the peer: one-to-one messages, archived for the sender and for the receiver before the receiver has them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter

from bench.crowd import quiet
from bench.figures import Figures
from bench.peers.crowd import Complaints, online
from bench.peers.stage import PeerStage, User
from bench.peers.stanzas import ANSWER, ASK, ENABLE, ENABLED, MESSAGE, Messages, arrivals, count_in
from bench.peers.xmpp import Receive
from bench.players import Cue, perform
from bench.timeline import Timeline, WrongDelivery
from bench.workloads.pairs import SECONDS, WARM_UP, Played, figures


@dataclass(frozen=True, slots=True)
class Part:
    port: int
    users: Sequence[User]
    """A sender, its receiver, the next sender, and so on."""
    acknowledged: bool
    """Whether the senders ask, after each message, how many the server has handled."""


async def w1_pairs(stage: PeerStage, *, pairs: int = 50) -> Figures:
    """50 sender→receiver pairs; the next send when the receiver has the previous one."""
    part = Part(stage.port, stage.users(2 * pairs), acknowledged=stage.manner.acknowledges)
    played, meter = await perform(stage, play, [part], warm_up=WARM_UP, seconds=SECONDS)
    measured = figures(played, meter)
    # For the sender and for the receiver.
    stage.require_archived([user.name for user in part.users], 2 * played[0].account.received)
    return measured


async def play(part: Part, cue: Cue) -> Played:
    receivers, stopped, complaints = part.users[1::2], cue.stopped, Complaints()
    timelines = [Timeline(arrivals) for _ in receivers]
    messages = [Messages(user.address, kind="chat") for user in receivers]
    answers: list[list[bytes]] = [[] for _ in receivers]
    question = ASK if part.acknowledged else b""

    def send(pair: int) -> None:
        streams[2 * pair].write(messages[pair].next(perf_counter()) + question)

    def sender(pair: int) -> Receive:
        mine = answers[pair]

        def receive(stanza: bytes) -> None:
            if stanza.startswith(ANSWER):
                mine.append(stanza)
            else:
                complaints.read(stanza)

        return receive

    def receiver(pair: int) -> Receive:
        timeline = timelines[pair]

        def receive(stanza: bytes) -> None:
            if stanza.startswith(MESSAGE):
                timeline.message(stanza, perf_counter())
                if not stopped.is_set():
                    send(pair)
            else:
                complaints.read(stanza)

        return receive

    async with online(part.port, part.users) as streams:
        for pair in range(len(receivers)):
            if part.acknowledged:
                streams[2 * pair].write(ENABLE)
                await streams[2 * pair].answer(ENABLED)
            streams[2 * pair].deliver_to(sender(pair))
            streams[2 * pair + 1].deliver_to(receiver(pair))
        await cue.ready()
        for pair in range(len(receivers)):
            send(pair)
        await stopped.wait()
        await quiet(lambda: sum(map(len, timelines)) + sum(map(len, answers)))
        complaints.require_none(streams)
    if part.acknowledged:
        require_acknowledged(answers, [each.number for each in messages])
    played = Played()
    for timeline, sent in zip(timelines, messages, strict=True):
        played.arrived += [(at, at - due) for _, due, at in timeline.live()]
        played.account += timeline.account(after=0, latest=sent.number)
    if played.account.repeated:
        raise WrongDelivery(f"{played.account.repeated} messages came twice")
    return played


def require_acknowledged(answers: Iterable[Sequence[bytes]], sent: Iterable[int]) -> None:
    """Raises `WrongDelivery` when a sender was not told of each of its messages, one after the other."""
    for number, (mine, count) in enumerate(zip(answers, sent, strict=True)):
        if list(map(count_in, mine)) != list(range(1, count + 1)):
            raise WrongDelivery(f"sender {number} sent {count} messages and got {len(mine)} answers, or not in order")
