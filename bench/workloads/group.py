"""W2: one group of online members, some of them sending; the next send on the ack of the previous one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from bench.crowd import Complaints, connected, quiet
from bench.figures import Figures, milliseconds
from bench.frames import ACK, MESSAGE, Drafts
from bench.meter import Meter
from bench.players import Cue, perform
from bench.timeline import Account, Timeline, WrongDelivery
from bench.wire import Receive
from bench.workloads import Setting

WARM_UP, SECONDS = 2.0, 8.0
SENDERS = 10


@dataclass(frozen=True, slots=True)
class Room:
    chat_id: str
    tokens: Sequence[str]
    after: int = 0
    """The chat's last sequence so far."""


@dataclass(frozen=True, slots=True)
class Part:
    url: str
    room: Room
    members: Sequence[int]
    """Numbers of those who are played here; the first `SENDERS` of the room send."""


@dataclass(slots=True)
class Fate:
    """Of one message: when it was sent, how many have it, when the last of them got it."""

    due: float
    arrivals: int = 0
    last: float = 0.0

    def add(self, arrivals: int, last: float) -> None:
        self.arrivals += arrivals
        self.last = max(self.last, last)


@dataclass(slots=True)
class Played:
    acked_at: list[float] = field(default_factory=list)
    delivered_at: list[float] = field(default_factory=list)
    fates: dict[int, Fate] = field(default_factory=dict)
    latest: int = 0
    account: Account = field(default_factory=Account)

    def arrived(self, sequence: int, due: float, at: float) -> None:
        self.delivered_at.append(at)
        self.fates.setdefault(sequence, Fate(due)).add(1, at)

    def __iadd__(self, other: "Played") -> "Played":
        self.acked_at += other.acked_at
        self.delivered_at += other.delivered_at
        for sequence, fate in other.fates.items():
            self.fates.setdefault(sequence, Fate(fate.due)).add(fate.arrivals, fate.last)
        self.account += other.account
        return self


async def w2_group(setting: Setting, *, members: int = 50) -> Figures:
    """A group of 50 online members, ten of them sending; the next send on the ack of the previous one."""
    return await measure(setting, make_room(setting, members))


def make_room(setting: Setting, members: int) -> Room:
    people = setting.stage.people(members)
    chat_id = setting.stage.group(people[0], people[1:])
    return Room(chat_id, [person.token for person in people])


async def measure(setting: Setting, room: Room) -> Figures:
    stage, everybody = setting.stage, range(len(room.tokens))
    parts = [Part(stage.url, room, everybody[number :: setting.clients]) for number in range(setting.clients)]
    results, meter = await perform(
        stage, play, parts, warm_up=setting.seconds(WARM_UP), seconds=setting.seconds(SECONDS)
    )
    if len({played.latest for played in results}) != 1:
        raise WrongDelivery("the last messages did not reach every client process")
    whole = results[0]
    for played in results[1:]:
        whole += played
    return figures(whole, meter, others=len(room.tokens) - 1)


def figures(played: Played, meter: Meter, *, others: int) -> Figures:
    """`others` get each message besides its sender. Raises `WrongDelivery`."""
    played.account.require_right()
    accepted = sum(map(meter.covers, played.acked_at))
    measured = [fate for fate in played.fates.values() if meter.covers(fate.due)]
    complete = [fate.last - fate.due for fate in measured if fate.arrivals >= others]
    return {
        "accepted_per_s": accepted / meter.seconds,
        "deliveries_per_s": sum(map(meter.covers, played.delivered_at)) / meter.seconds,
        **milliseconds("last_receiver", complete),
        **meter.figures(accepted),
    }


async def play(part: Part, cue: Cue) -> Played:
    room, stopped, complaints = part.room, cue.stopped, Complaints()
    timelines = {number: Timeline() for number in part.members}
    senders = {
        number: (place, Drafts(room.chat_id, first=number * 10**9))
        for place, number in enumerate(part.members)
        if number < SENDERS
    }

    def send(number: int) -> None:
        place, drafts = senders[number]
        wires[place].write(drafts.next(perf_counter()))

    def receiver(number: int) -> Receive:
        timeline = timelines[number]

        def receive(frame: bytes) -> None:
            if frame.startswith(MESSAGE):
                timeline.message(frame, perf_counter())
            elif frame.startswith(ACK):
                timeline.ack(frame, perf_counter())
                if not stopped.is_set():
                    send(number)
            else:
                complaints.read(frame)

        return receive

    tokens = [room.tokens[number] for number in part.members]
    async with connected(part.url, tokens, [receiver(number) for number in part.members]) as wires:
        await cue.ready()
        for number in senders:
            send(number)
        await stopped.wait()
        await quiet(lambda: sum(map(len, timelines.values())))
    complaints.require_none()
    return _read(list(timelines.values()), after=room.after)


def _read(timelines: Sequence[Timeline], *, after: int) -> Played:
    played = Played()
    for timeline in timelines:
        for sequence, due, at in timeline.live():
            played.arrived(sequence, due, at)
        for sequence, due, at in timeline.own():
            played.fates.setdefault(sequence, Fate(due))
            played.acked_at.append(at)
    played.latest = max(played.fates, default=after)
    for timeline in timelines:
        played.account += timeline.account(after=after, latest=played.latest)
    return played
