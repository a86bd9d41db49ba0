"""W6: many small groups in an open loop, with acks and reconnects."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

from bench.connections import ServerErrors, connect_with_retry, drain, open_connections
from bench.deployment import User
from bench.figures import Figures, latency_figures
from bench.frames import ACK, MESSAGE, SYNC_BATCH, Drafts, ack, parse_messages, sequences, sync_request, to_micros
from bench.schedule import Schedule
from bench.timeline import DeliveryCheck, Timeline
from bench.websocket import Receive, WebSocket
from bench.window import Window
from bench.workloads import RunContext

CHAT_SIZE = 5
WARM_UP, SECONDS, TICK = 2.0, 10.0, 0.002
RECONNECT_SHARE = 0.1
"""Share of the connections that reconnect during the window."""


async def w6_mixed(context: RunContext, *, chats: int = 100) -> Figures:
    """100 chats of five, 120 and 600 messages a second, acks, a tenth of the connections reconnect."""
    users = context.deployment.create_users(chats * CHAT_SIZE)
    figures: Figures = {}
    for rate in (120, 600):
        context.report(f"  {rate} messages a second")
        mixed = Mixed(context, split_into_groups(users))
        figures |= {f"at_{rate}_{name}": value for name, value in (await mixed.measure(rate)).items()}
        mixed.require_passed()
    return figures


def split_into_groups(users: Sequence[User]) -> list[Sequence[User]]:
    return [users[first : first + CHAT_SIZE] for first in range(0, len(users), CHAT_SIZE)]


@dataclass(slots=True)
class Member:
    """`last`: the last sequence received; `unacked`: drafts sent and not yet acknowledged, by due time."""

    user: User
    chat_id: str
    drafts: Drafts
    timeline: Timeline = field(default_factory=Timeline)
    last: int = 0
    unacked: dict[int, bytes] = field(default_factory=dict)


class Mixed:
    """Creates a chat for each group, and measures once."""

    def __init__(
        self, context: RunContext, groups: Sequence[Sequence[User]], *, reconnect_share: float = RECONNECT_SHARE
    ) -> None:
        self._context = context
        self._reconnect_share = reconnect_share
        chats = [context.deployment.create_group(group[0], group[1:]) for group in groups]
        self._members = [
            Member(user, chat_id, Drafts(chat_id, first=number * 10**9))
            for chat_id, group in zip(chats, groups, strict=True)
            for number, user in enumerate(group)
        ]
        self._sent: dict[str, int] = dict.fromkeys(chats, 0)
        self._errors = ServerErrors()
        self._sockets: dict[int, WebSocket] = {}
        self._reconnects: list[asyncio.Task[None]] = []
        self.closed = 0
        """Connections that the server had closed by the end."""
        self._rng = random.Random(0)  # noqa: S311 - not a secret

    async def measure(self, rate: float, *, beside: AbstractAsyncContextManager[None] | None = None) -> Figures:
        figures, _ = await self.run(rate, beside=beside)
        return figures

    async def run(
        self, rate: float, *, beside: AbstractAsyncContextManager[None] | None = None
    ) -> tuple[Figures, Window]:
        """Offer messages at `rate`. What runs `beside` is entered after the warm-up, for the length of the window."""
        deployment, seconds = self._context.deployment, self._context.seconds
        tokens = [member.user.token for member in self._members]
        receivers = [self._receiver(number) for number in range(len(tokens))]
        async with open_connections(deployment.url, tokens, receivers) as self._sockets:
            await self._offer(Schedule(rate, perf_counter()), seconds(WARM_UP), reconnects=0)
            async with beside or nullcontext(), deployment.measure_window() as window:
                reconnects = int(len(tokens) * self._reconnect_share)
                await self._offer(Schedule(rate, perf_counter()), seconds(SECONDS), reconnects=reconnects)
            await asyncio.gather(*self._reconnects)
            await drain(lambda: sum(len(member.timeline) for member in self._members))
            self.closed = sum(not socket.is_open for socket in self._sockets.values())
        acked = [(due, at) for member in self._members for _, due, at in member.timeline.acks()]
        acks = [at - due for due, at in acked if window.covers(due)]
        durable = sum(window.covers(at) for _, at in acked)
        delivered = [each for member in self._members for each in member.timeline.messages()]
        figures = {
            "offered_per_s": len(acks) / window.seconds,
            "durable_per_s": durable / window.seconds,
            **latency_figures("ack", acks),
            **latency_figures("delivery", [at - due for _, due, at in delivered if window.covers(due)]),
            "reconnects": float(len(self._reconnects)),
            **window.figures(durable),
        }
        return figures, window

    async def _offer(self, schedule: Schedule, seconds: float, *, reconnects: int) -> None:
        started = perf_counter()
        numbers = self._rng.sample(range(len(self._sockets)), reconnects)
        reconnect_schedule = Schedule(reconnects / seconds, started)
        while (now := perf_counter()) - started < seconds:
            for due in schedule.due(now):
                self._send(due)
            for _ in reconnect_schedule.due(now) if numbers else ():
                if numbers:
                    self._reconnects.append(asyncio.create_task(self._reconnect(numbers.pop())))
            await asyncio.sleep(TICK)

    def _send(self, due: float) -> None:
        number = self._rng.randrange(len(self._members))
        member = self._members[number]
        draft = member.drafts.next(due)
        member.unacked[to_micros(due)] = draft
        self._sent[member.chat_id] += 1
        if self._sockets[number].is_open:
            self._sockets[number].write(draft)

    async def _reconnect(self, number: int) -> None:
        """Reconnect as a client does: sync what was missed, resend what is unacknowledged."""
        member = self._members[number]
        # Read before reconnecting: live messages advance it past the gap.
        last = member.last
        self._sockets[number].close()
        socket = await connect_with_retry(self._context.deployment.url, member.user.token, self._receiver(number))
        self._sockets[number] = socket
        socket.write(sync_request(member.chat_id, last))
        for draft in list(member.unacked.values()):
            socket.write(draft)

    def _receiver(self, number: int) -> Receive:
        return partial(self._receive, self._members[number], number)

    def _receive(self, member: Member, number: int, frame: bytes) -> None:
        now = perf_counter()
        if frame.startswith(MESSAGE):
            member.timeline.add_message(frame, now)
            member.last = sequences(frame)[-1]
            self._sockets[number].write(ack(member.chat_id, member.last))
        elif frame.startswith(ACK):
            _, due = next(parse_messages(frame))
            if member.unacked.pop(to_micros(due), None) is not None:
                member.timeline.add_ack(frame, now)
        elif frame.startswith(SYNC_BATCH):
            member.timeline.add_sync(frame)
        else:
            self._errors.read(frame)

    @property
    def errors(self) -> int:
        """Error frames received."""
        return len(self._errors.frames)

    def check(self) -> DeliveryCheck:
        check = DeliveryCheck()
        for member in self._members:
            check += member.timeline.check(after=0, latest=self._sent[member.chat_id])
        return check

    def require_passed(self) -> None:
        """Raises `InvalidRun`."""
        self._errors.require_none()
        self.check().require_passed()
