"""The connection of a `web` process to the others: one channel each in Redis, which carries batches and answers.

A process subscribes under a name with a new epoch, and enters the list of homes under it once it can be reached. When
the subscription breaks, or an answer could not be sent, the epoch ends and the next begins: others see the name leave
the list and take back what they handed over. So nobody waits for an answer that was lost. An answer that reached nobody
is tried again for as long as its addressee may be alive.

Parcels for one process leave in order, one envelope at a time; those that gather meanwhile share the next.
"""

import asyncio
import logging
import random
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from foundation.kernel.clock import Clock
from foundation.stores.errors import StoreUnavailable
from messaging.services import metrics
from messaging.services.envelopes import HEADER_BYTES, MAX_BYTES, BadEnvelope, Envelope, Envelopes
from messaging.services.guests import Guests, not_home
from messaging.services.handover import HandOver
from messaging.services.homes import LIST_TTL, REFRESH_EVERY, HomeRegistration, Homes

log = logging.getLogger(__name__)

MAX_AGE = 60.0
"""Seconds after which a batch is refused."""
MAX_SENDERS = 10_000
CLOSE_TIMEOUT = 2.0
PAUSE = (0.1, 0.5)
"""Seconds between two epochs: a random time within these."""
ANSWER_AGAIN_AFTER = 2 * REFRESH_EVERY
ANSWER_TRIES = 4
"""Of an answer that reaches nobody. They take longer than a process that is gone stays in the list."""


class Channel(Protocol):
    """Redis' publish and subscribe, by the names of processes."""

    def listen(self, name: str) -> AsyncIterator[bytes | None]:
        """Yield None once subscribed, then every payload. Raises `StoreUnavailable` when the subscription breaks."""
        ...

    async def publish(self, name: str, payload: bytes) -> int:
        """Return how many it reached. Raises `StoreUnavailable`: it may have reached somebody."""
        ...


@dataclass(frozen=True, slots=True)
class Parcel:
    """`batch_id` is None for an answer."""

    body: bytes
    batch_id: str | None
    tries: int = 1


@dataclass(slots=True, eq=False)
class Link:
    """What waits to be sent to one process."""

    name: str
    parcels: deque[Parcel] = field(default_factory=deque)
    task: "asyncio.Task[None] | None" = None

    def take(self) -> list[Parcel]:
        """As many parcels as one envelope holds, one at least."""
        taken, room = [self.parcels.popleft()], MAX_BYTES - HEADER_BYTES
        room -= len(taken[0].body)
        while self.parcels and len(self.parcels[0].body) < room:
            taken.append(self.parcels.popleft())
            room -= len(taken[-1].body) + 1
        return taken


class Peers:
    """One per process, for its event loop."""

    def __init__(
        self,
        *,
        gateway_id: str,
        channel: Channel,
        envelopes: Envelopes,
        homes: Homes,
        registration: HomeRegistration,
        clock: Clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gateway_id = gateway_id
        self._channel = channel
        self._envelopes = envelopes
        self._homes = homes
        self._registration = registration
        self._clock = clock
        self._monotonic = monotonic
        self._name: str | None = None
        self._links: dict[str, Link] = {}
        self._sent = 0
        # The number of the last envelope from each process.
        self._received: OrderedDict[str, int] = OrderedDict()
        self._epoch: asyncio.Task[None] | None = None
        self._is_closed = False
        self._serves_until = 0.0

    def connect(self, handover: HandOver, guests: Guests) -> None:
        """To be called once, before `run`."""
        self._handover = handover
        self._guests = guests

    async def run(self) -> None:
        """Stay in the list of homes and serve one epoch after the other, until closed."""
        refreshing = asyncio.create_task(self._registration.run())
        while not self._is_closed:
            self._epoch = asyncio.create_task(self._serve())
            await asyncio.wait([self._epoch])
            _log_end(self._epoch)
            if not self._is_closed:
                await asyncio.sleep(random.uniform(*PAUSE))  # noqa: S311 - not a secret
        self._registration.stop()
        await refreshing

    async def leave(self) -> None:
        """Take this process off the list of homes. It goes on serving those who have not noticed yet."""
        if not self._homes.is_alone:
            self._serves_until = self._monotonic() + LIST_TTL
        await self._registration.leave()

    async def refuse(self) -> None:
        """Accept no more batches, as soon as everybody has noticed that this process has left."""
        await asyncio.sleep(max(0.0, self._serves_until - self._monotonic()))
        self._guests.close()

    async def close(self) -> None:
        """Send what waits, and end."""
        self._is_closed = True
        if tasks := [link.task for link in self._links.values() if link.task is not None]:
            await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)
        self._end_epoch()

    async def _serve(self) -> None:
        name = self._envelopes.new_name(self._gateway_id)
        try:
            async with aclosing(self._channel.listen(name)) as payloads:  # type: ignore[type-var]
                async for payload in payloads:
                    if payload is None:
                        self._name = name
                        self._registration.enter(name)
                    else:
                        self._receive(name, payload)
        finally:
            self._name = None
            self._registration.withdraw()
            links, self._links = self._links, {}
            for link in links.values():
                if link.task is not None:
                    link.task.cancel()
            self._handover.on_subscription_lost()

    def _end_epoch(self) -> None:
        if self._epoch is not None:
            self._epoch.cancel()

    # Sending

    def can_reach(self, name: str) -> bool:
        """Whether that process can read what this one sends."""
        return self._name is not None and self._envelopes.can_verify(name)

    def send_batch(self, name: str, batch_id: str, parcel: bytes) -> None:
        self._send(name, Parcel(parcel, batch_id))

    def _reply(self, epoch: str, name: str, body: bytes) -> None:
        """Send an answer, unless the epoch of the question is over: then the other has taken its batch back."""
        if self._name == epoch:
            self._send(name, Parcel(body, None))

    def _send(self, name: str, parcel: Parcel) -> None:
        link = self._links.get(name)
        if link is None:
            link = self._links[name] = Link(name)
        link.parcels.append(parcel)
        if link.task is None:
            link.task = asyncio.create_task(self._drain(link))
            link.task.add_done_callback(self._on_drained)

    async def _drain(self, link: Link) -> None:
        """Send until nothing waits, or the epoch has ended."""
        while link.parcels and self._name is not None and self._links.get(link.name) is link:
            parcels = link.take()
            self._sent += 1
            payload = self._envelopes.seal(
                sender=self._name,
                to=link.name,
                number=self._sent,
                at=self._clock.now().timestamp(),
                parcels=[parcel.body for parcel in parcels],
            )
            try:
                reached = await self._channel.publish(link.name, payload)
            except StoreUnavailable as error:
                log.warning("another process may not have been reached: %s", error.detail)
                if self._take_back_batches(parcels):
                    self._end_epoch()
            else:
                if not reached and (answers := self._take_back_batches(parcels)):
                    loop = asyncio.get_running_loop()
                    loop.call_later(ANSWER_AGAIN_AFTER, self._answer_again, self._name, link.name, answers)
        if self._links.get(link.name) is link:
            del self._links[link.name]

    def _on_drained(self, sending: "asyncio.Task[None]") -> None:
        """After an unexpected error nobody may wait for what was to be sent: the end of the epoch takes it all back."""
        if not sending.cancelled() and (error := sending.exception()) is not None:
            log.error("sending to another process failed", exc_info=error)
            self._end_epoch()

    def _take_back_batches(self, parcels: list[Parcel]) -> list[Parcel]:
        """Have the batches among unsent parcels taken back; return the answers."""
        self._handover.on_unreachable([parcel.batch_id for parcel in parcels if parcel.batch_id is not None])
        return [parcel for parcel in parcels if parcel.batch_id is None]

    def _answer_again(self, epoch: str, name: str, answers: list[Parcel]) -> None:
        """Send answers that reached nobody once more, unless the process that waits for them has left the list.

        If it stays in the list and cannot be reached, the end of this epoch tells it to take its batches back.
        """
        names = self._homes.names
        if self._name != epoch or (names and name not in names):
            return
        if any(answer.tries == ANSWER_TRIES for answer in answers):
            self._end_epoch()
            return
        for answer in answers:
            self._send(name, replace(answer, tries=answer.tries + 1))

    # Receiving

    def _receive(self, name: str, payload: bytes) -> None:
        try:
            envelope = self._envelopes.open(payload, to=name)
            self._require_new(envelope)
        except BadEnvelope as error:
            metrics.ENVELOPES_REFUSED.labels(error.reason).inc()
            log.warning("an envelope for this process is refused: %s", error.reason)
            return
        for parcel in envelope.parcels:
            self._open(name, envelope, parcel)

    def _require_new(self, envelope: Envelope) -> None:
        """Numbers grow, so one that does not is a repetition. Raises `BadEnvelope`."""
        if envelope.number <= self._received.get(envelope.sender, 0):
            raise BadEnvelope("replayed")
        self._received[envelope.sender] = envelope.number
        self._received.move_to_end(envelope.sender)
        if len(self._received) > MAX_SENDERS:
            self._received.popitem(last=False)

    def _open(self, name: str, envelope: Envelope, parcel: dict[str, Any]) -> None:
        """Of a version that is not known only the types `batch` and `not_home` are, and their ids."""
        is_known, sender = envelope.version == self._envelopes.version, envelope.sender
        match parcel:
            case {"type": "batch", "id": str(batch_id)}:
                reply = partial(self._reply, name, sender)
                if is_known and abs(self._clock.now().timestamp() - envelope.at) <= MAX_AGE:
                    self._guests.receive(batch_id, parcel, reply=reply)
                else:
                    reply(not_home(batch_id))
            case {"type": "not_home", "id": str(batch_id)}:
                self._handover.on_not_home(sender, batch_id)
            case {"type": "announced", "id": str(batch_id), "answers": list(answers)} if is_known:
                self._handover.on_announced(sender, batch_id, answers)
            case {"type": "stored", "id": str(batch_id)} if is_known:
                self._handover.on_stored(sender, batch_id)
            case _:
                metrics.ENVELOPES_REFUSED.labels("unknown_parcel").inc()


def _log_end(epoch: "asyncio.Task[None]") -> None:
    error = None if epoch.cancelled() else epoch.exception()
    if isinstance(error, StoreUnavailable):
        log.warning("other processes cannot hand drafts over to this one: %s", error.detail)
    elif error is not None:
        log.error("serving other processes failed", exc_info=error)
