"""W6: many small groups at a given rate, with acknowledgements, and people who come and go."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

from bench.crowd import Complaints, connect_patiently, connected, quiet
from bench.figures import Figures, milliseconds
from bench.frames import ACK, MESSAGE, SYNC_BATCH, Drafts, ack, arrivals, moment, sequences, sync_request
from bench.schedule import Schedule
from bench.stage import Person
from bench.timeline import Account, Timeline
from bench.wire import Receive, Wire
from bench.workloads import Setting

SIZE = 5
WARM_UP, SECONDS, TICK = 2.0, 10.0, 0.002
RECONNECTING = 0.1
"""The share of all connections that are lost and made again within the window."""


async def w6_mixed(setting: Setting, *, chats: int = 100) -> Figures:
    """100 chats of five, 120 and 600 messages a second, acks, a tenth of the connections made anew."""
    people = setting.stage.people(chats * SIZE)
    figures: Figures = {}
    for rate in (120, 600):
        setting.report(f"  {rate} messages a second")
        rooms = [people[first : first + SIZE] for first in range(0, len(people), SIZE)]
        mixed = Mixed(setting, rooms, [setting.stage.group(room[0], room[1:]) for room in rooms])
        figures |= {f"at_{rate}_{name}": value for name, value in (await mixed.measure(rate)).items()}
    return figures


@dataclass(slots=True)
class Guest:
    """A member: what came, how far it came, and what has been sent and not yet been acknowledged."""

    person: Person
    chat_id: str
    drafts: Drafts
    timeline: Timeline = field(default_factory=Timeline)
    last: int = 0
    waiting: dict[int, bytes] = field(default_factory=dict)


class Mixed:
    def __init__(self, setting: Setting, rooms: Sequence[Sequence[Person]], chats: Sequence[str]) -> None:
        self._setting = setting
        self._guests = [
            Guest(person, chat_id, Drafts(chat_id, first=number * 10**9))
            for chat_id, room in zip(chats, rooms, strict=True)
            for number, person in enumerate(room)
        ]
        self._sent = dict.fromkeys(chats, 0)
        self._complaints = Complaints()
        self._wires: dict[int, Wire] = {}
        self._reconnects: list[asyncio.Task[None]] = []
        self._dice = random.Random(0)  # noqa: S311 - not a secret

    async def measure(self, rate: float) -> Figures:
        stage, seconds = self._setting.stage, self._setting.seconds
        tokens = [guest.person.token for guest in self._guests]
        receivers = [self._receiver(number) for number in range(len(tokens))]
        async with connected(stage.url, tokens, receivers) as self._wires:
            await self._offer(Schedule(rate, perf_counter()), seconds(WARM_UP), leaving=0)
            async with stage.metering() as meter:
                leaving = int(len(tokens) * RECONNECTING)
                await self._offer(Schedule(rate, perf_counter()), seconds(SECONDS), leaving=leaving)
            await asyncio.gather(*self._reconnects)
            await quiet(lambda: sum(len(guest.timeline) for guest in self._guests))
        self._require_right()
        own = [(due, at) for guest in self._guests for _, due, at in guest.timeline.own()]
        acks = [at - due for due, at in own if meter.covers(due)]
        durable = sum(meter.covers(at) for _, at in own)
        came = [at - due for guest in self._guests for _, due, at in guest.timeline.live() if meter.covers(due)]
        return {
            "offered_per_s": len(acks) / meter.seconds,
            "durable_per_s": durable / meter.seconds,
            **milliseconds("ack", acks),
            **milliseconds("delivery", came),
            "reconnects": float(len(self._reconnects)),
            **meter.figures(durable),
        }

    async def _offer(self, schedule: Schedule, seconds: float, *, leaving: int) -> None:
        begun = perf_counter()
        leavers = self._dice.sample(range(len(self._wires)), leaving)
        departures = Schedule(leaving / seconds, begun)
        while (now := perf_counter()) - begun < seconds:
            for due in schedule.due(now):
                self._send(due)
            for _ in departures.due(now) if leavers else ():
                if leavers:
                    self._reconnects.append(asyncio.create_task(self._reconnect(leavers.pop())))
            await asyncio.sleep(TICK)

    def _send(self, due: float) -> None:
        number = self._dice.randrange(len(self._guests))
        guest = self._guests[number]
        draft = guest.drafts.next(due)
        guest.waiting[moment(due)] = draft
        self._sent[guest.chat_id] += 1
        if self._wires[number].is_open:
            self._wires[number].write(draft)

    async def _reconnect(self, number: int) -> None:
        """As a client does: sync what was missed, send again what was not acknowledged."""
        guest = self._guests[number]
        # Read now: what arrives live before the sync would hide the gap.
        last = guest.last
        self._wires[number].close()
        wire = await connect_patiently(self._setting.stage.url, guest.person.token, self._receiver(number))
        self._wires[number] = wire
        wire.write(sync_request(guest.chat_id, last))
        for draft in list(guest.waiting.values()):
            wire.write(draft)

    def _receiver(self, number: int) -> Receive:
        return partial(self._receive, self._guests[number], number)

    def _receive(self, guest: Guest, number: int, frame: bytes) -> None:
        now = perf_counter()
        if frame.startswith(MESSAGE):
            guest.timeline.message(frame, now)
            guest.last = sequences(frame)[-1]
            self._wires[number].write(ack(guest.chat_id, guest.last))
        elif frame.startswith(ACK):
            _, due = next(arrivals(frame))
            if guest.waiting.pop(moment(due), None) is not None:
                guest.timeline.ack(frame, now)
        elif frame.startswith(SYNC_BATCH):
            guest.timeline.synced(frame)
        else:
            self._complaints.read(frame)

    def _require_right(self) -> None:
        self._complaints.require_none()
        account = Account()
        for guest in self._guests:
            account += guest.timeline.account(after=0, latest=self._sent[guest.chat_id])
        account.require_right()
