"""W2 on the peer: one room whose messages it archives, then sends to all; the sender's own is its acknowledgement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from bench.crowd import quiet
from bench.figures import Figures
from bench.peers.crowd import Complaints, online
from bench.peers.stage import PeerStage, User
from bench.peers.stanzas import MESSAGE, Messages, arrivals
from bench.peers.xmpp import Receive
from bench.players import Cue, perform
from bench.timeline import Timeline, WrongDelivery, account_for
from bench.workloads.group import SECONDS, SENDERS, WARM_UP, Fate, Played, figures

APART = 10**9
"""Between the first numbers of two senders: a message's number says whose it is."""


@dataclass(frozen=True, slots=True)
class Part:
    port: int
    room: str
    users: Sequence[User]
    """The first `SENDERS` of them send."""


async def w2_room(stage: PeerStage, *, members: int = 50) -> Figures:
    """A room of 50, ten of them sending; the next send when the sender sees its previous one."""
    part = Part(stage.port, stage.room(), stage.users(members))
    results, meter = await perform(stage, play, [part], warm_up=WARM_UP, seconds=SECONDS)
    measured = figures(results[0], meter, others=members - 1)
    stage.require_archived([part.room], results[0].latest)
    return measured


async def play(part: Part, cue: Cue) -> Played:
    stopped, complaints = cue.stopped, Complaints()
    timelines = [Timeline(arrivals) for _ in part.users]
    messages = {number: Messages(part.room, kind="groupchat", first=number * APART) for number in range(SENDERS)}

    def send(number: int) -> None:
        streams[number].write(messages[number].next(perf_counter()))

    def receiver(number: int) -> Receive:
        timeline, sends = timelines[number], number in messages
        own = f" from='{part.room}/{part.users[number].name}'".encode()

        def receive(stanza: bytes) -> None:
            if stanza.startswith(MESSAGE):
                timeline.message(stanza, perf_counter())
                if sends and own in stanza and not stopped.is_set():
                    send(number)
            else:
                complaints.read(stanza)

        return receive

    async with online(part.port, part.users, room=part.room) as streams:
        for number, stream in enumerate(streams):
            stream.deliver_to(receiver(number))
        await cue.ready()
        for number in messages:
            send(number)
        await stopped.wait()
        await quiet(lambda: sum(map(len, timelines)))
        complaints.require_none(streams)
    return _read(timelines, messages)


def _read(timelines: Sequence[Timeline], messages: Mapping[int, Messages]) -> Played:
    """The room's order is that in which its first member got everything: the others have to have the same."""
    places = {number: place for place, (number, _, _) in enumerate(timelines[0].live(), start=1)}
    sent = [number for sender, each in messages.items() for number in range(sender * APART + 1, each.number + 1)]
    if sorted(places) != sent:
        raise WrongDelivery("the first member did not get what was sent")
    played = Played(latest=len(places))
    for member, timeline in enumerate(timelines):
        for number, due, at in timeline.live():
            if number // APART == member:
                played.acked_at.append(at)
                played.fates.setdefault(number, Fate(due))
            else:
                played.arrived(number, due, at)
        order = (places.get(number, 0) for number, _, _ in timeline.live())
        played.account += account_for(order, after=0, latest=len(places))
    if played.account.repeated:
        raise WrongDelivery(f"{played.account.repeated} messages came twice")
    return played
