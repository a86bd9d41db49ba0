"""A gateway: the sockets of one process, and the tasks that keep them supplied, known and alive.

Redis may be away for a while: sockets stay, sends and syncs work, and pushes resume when it is back. What was published
meanwhile is lost to pub/sub, so every socket is then told to `resync`, which the client does from the source of truth.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, Protocol

import redis.asyncio
from prometheus_client import Counter, Gauge
from redis.exceptions import RedisError

from delivery.gateway import frames
from delivery.gateway.closing import Close
from delivery.gateway.mailbox import Mailbox
from delivery.gateway.rounds import Rounds
from delivery.gateway.sorting import sorted_out
from delivery.stores.connections import ConnectionRegistry, Registration, deliver_channel
from foundation.kernel.errors import Unavailable
from foundation.kernel.ids import SessionId

log = logging.getLogger(__name__)

CONNECTIONS = Gauge("parley_gateway_connections", "Open sockets of this process.")
DELIVERED = Counter("parley_gateway_deliveries_total", "Messages and notices handed to sockets.")
REGISTRY_LOST = Counter("parley_gateway_registry_lost_total", "Times Redis no longer knew this gateway's connections.")

NEVER = float("-inf")
TICK = 1.0
SUBSCRIBED_WITHIN = 1.0
REFRESH_AFTER = 20.0
RECHECK_AFTER = 30.0
RESYNC_SPREAD = 1.0
DRAIN_SPREAD = 3.0
ENDED_LATELY = 1_000
PUBSUB_CHECK = 5.0
MAX_PAYLOADS = 200
REST = 3
LONGEST_REST = 0.01


class Socket(Protocol):
    """What the hub knows of a connection."""

    registration: Registration
    registered_at: float

    def deliver(self, frame: frames.Frame) -> None: ...

    def end(self, close: Close) -> None: ...

    def overdue(self, now: float) -> Close | None:
        """Why the socket should be closed by now, if it should: no sign of life, or a token long expired."""


class Hub:
    """Only for the event loop's thread, but for `post`. One per process."""

    def __init__(
        self,
        *,
        gateway_id: str,
        client: "redis.asyncio.Redis",
        sessions_ended: Callable[[Iterable[SessionId]], None],
        control: Callable[[], Awaitable[Iterable[SessionId]]],
        ended_among: Callable[[Iterable[SessionId]], Awaitable[Iterable[SessionId]]],
    ) -> None:
        self.gateway_id = gateway_id
        self.draining = False
        self._client = client
        self._registry = ConnectionRegistry(client, gateway_id=gateway_id)
        self._sessions_ended = sessions_ended
        self._control = control
        self._ended_among = ended_among
        self._sockets: dict[str, Socket] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._mailbox: Mailbox | None = None
        self._subscribed = asyncio.Event()
        self._has_been_subscribed = False
        self._arrivals = Rounds(self._register)
        self._departures = Rounds(self._registry.unregister)
        self._ended_lately: deque[SessionId] = deque(maxlen=ENDED_LATELY)
        self._payloads: list[bytes] = []
        self._rested_at = NEVER
        self._written: set[str] = set()

    async def start(self) -> None:
        """Begin at the first connection; return when deliveries can arrive, or soon when Redis is away."""
        if not self._tasks:
            self._mailbox = Mailbox(asyncio.get_running_loop())
            self._tasks = [
                asyncio.ensure_future(self._forever(self._receive, "deliveries")),
                asyncio.ensure_future(self._forever(self._listen, "control")),
                asyncio.ensure_future(self._forever(self._tend, "registry")),
                asyncio.ensure_future(self._forever(self._recheck, "sessions")),
            ]
        try:
            async with asyncio.timeout(SUBSCRIBED_WITHIN):
                await self._subscribed.wait()
        except TimeoutError:
            log.warning("no subscription yet: pushes will start when Redis is back")

    def post(self, call: Callable[..., object], *arguments: object) -> None:
        """Have a call made on the event loop's thread, from any, once the hub has started."""
        if self._mailbox is not None:
            self._mailbox.post(call, *arguments)

    async def add(self, socket: Socket) -> None:
        """Let deliveries in, then enter the connection, so that whoever finds it there reaches it."""
        self._sockets[socket.registration.connection_id] = socket
        CONNECTIONS.set(len(self._sockets))
        if socket.registration.session_id in self._ended_lately:
            socket.end(Close.SESSION_REVOKED)
        try:
            await self._arrivals.join(socket)
        except Unavailable as error:
            log.warning("a connection is not registered yet: %s", error.detail)

    async def remove(self, socket: Socket) -> None:
        if self._sockets.pop(socket.registration.connection_id, None) is None:
            return
        CONNECTIONS.set(len(self._sockets))
        try:
            await self._departures.join(socket.registration)
        except Unavailable as error:
            log.info("a connection is left to expire: %s", error.detail)

    async def drain(self, *, spread: float = DRAIN_SPREAD) -> None:
        """Send every client elsewhere, spread over a few seconds so that they do not arrive there all at once."""
        self.draining = True
        sockets = list(self._sockets.values())
        random.shuffle(sockets)
        for socket in sockets:
            socket.end(Close.RESTART)
            await asyncio.sleep(spread / len(sockets))
        try:
            await self._registry.unregister([socket.registration for socket in sockets])
        except Unavailable as error:
            log.info("connections are left to expire: %s", error.detail)
        for task in self._tasks:
            task.cancel()

    async def _forever(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        """Run a task again, after a jittered pause, whenever Redis, or a bug, breaks it off."""
        while True:
            try:
                await work()
            except (RedisError, Unavailable, OSError) as error:
                log.warning("%s: an engine is away (%s)", name, type(error).__name__)
            except Exception:
                log.exception("%s broke off", name)
            await asyncio.sleep(random.uniform(0.1, 0.5))  # noqa: S311 - not a secret

    async def _receive(self) -> None:
        """Hand over what the fanout publishes to this gateway.

        The client library reconnects by itself; that Redis confirms a subscription again is how we learn of it.
        """
        try:
            async with self._client.pubsub() as pubsub:
                await pubsub.subscribe(deliver_channel(self.gateway_id))
                while True:
                    # In between, the client checks the connection.
                    message = await pubsub.get_message(timeout=PUBSUB_CHECK)
                    if message is not None and message["type"] == "subscribe":
                        self._notice_subscription()
                    elif message is not None and message["type"] == "message":
                        self._hand_over_soon(message["data"])
        finally:
            self._subscribed.clear()

    def _notice_subscription(self) -> None:
        if self._has_been_subscribed:
            self._ask_to_resync(self._sockets.values())
        self._has_been_subscribed = True
        self._subscribed.set()

    def _hand_over_soon(self, payload: bytes) -> None:
        """With what else has come by then: the busier the sockets, the more goes in one write.

        Deliveries rest three times as long as they took, so that most of the time is left for what clients send. Those
        that went to other sockets than the ones before do not: nothing more would go in one write.
        """
        self._payloads.append(payload)
        if len(self._payloads) == 1:
            loop = asyncio.get_running_loop()
            loop.call_later(max(0.0, self._rested_at - loop.time()), self._hand_over_waiting)
        elif len(self._payloads) >= MAX_PAYLOADS:
            self._hand_over_waiting()

    def _hand_over_waiting(self) -> None:
        payloads, self._payloads = self._payloads, []
        if not payloads:  # they did not wait for this
            return
        loop = asyncio.get_running_loop()
        started = loop.time()
        written = self.hand_over(payloads)
        ended = loop.time()
        if written.isdisjoint(self._written):
            self._rested_at = ended
        else:
            self._rested_at = ended + min(REST * (ended - started), LONGEST_REST)
        self._written = written

    def hand_over(self, payloads: Sequence[bytes]) -> set[str]:
        """Give each connection its frames; return which of them got any."""
        delivered, written = 0, set()
        for connection_id, ready in sorted_out(payloads):
            socket = self._sockets.get(connection_id)
            if socket is not None and self._give(socket, ready):
                delivered += len(ready)
                written.add(connection_id)
        DELIVERED.inc(delivered)
        return written

    def _give(self, socket: Socket, ready: Iterable[frames.Frame]) -> bool:
        """A socket that cannot be written to keeps nothing from the others; its client will come again and sync."""
        try:
            for frame in ready:
                socket.deliver(frame)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this socket's alone
            log.warning("a socket cannot be written to: %r", error)
            socket.end(Close.RESTART)
            return False
        return True

    async def _listen(self) -> None:
        """Close the sockets of sessions that have ended."""
        while True:
            ended = set(await self._control())
            self._sessions_ended(ended)
            # Those of them that are about to enter were let in before this was known.
            self._ended_lately.extend(ended)
            self._end_sessions(ended)

    def _end_sessions(self, ended: Collection[SessionId]) -> None:
        for socket in list(self._sockets.values()):
            if socket.registration.session_id in ended:
                socket.end(Close.SESSION_REVOKED)

    async def _recheck(self) -> None:
        """Every half minute, ask the truth: a notice may have been lost while Redis was away."""
        while True:
            await asyncio.sleep(RECHECK_AFTER)
            open_sessions = {socket.registration.session_id for socket in self._sockets.values()}
            self._end_sessions(set(await self._ended_among(open_sessions)))

    async def _tend(self) -> None:
        """Every second: close what is overdue, refresh what is due, and notice when Redis has forgotten us."""
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            for socket in list(self._sockets.values()):
                if (close := socket.overdue(now)) is not None:
                    socket.end(close)
            if await self._is_forgotten():
                REGISTRY_LOST.inc()
                log.warning("Redis has forgotten this gateway: registering %d connections again", len(self._sockets))
                await self._register(list(self._sockets.values()))
                self._ask_to_resync(self._sockets.values())
            else:
                due = [socket for socket in self._sockets.values() if now - socket.registered_at > REFRESH_AFTER]
                late = [socket for socket in due if socket.registered_at == NEVER]
                await self._register(due)
                self._ask_to_resync(late)
            await asyncio.sleep(TICK)

    async def _is_forgotten(self) -> bool:
        """Whether Redis knows fewer connections than have been registered all the time while it was asked.

        A mere look whether it knows any would be misled by the first that connects after a loss.
        """
        before = self._registered()
        known = await self._registry.count() if before else 0
        return known < len(before & self._registered())

    def _registered(self) -> set[str]:
        return {name for name, socket in self._sockets.items() if socket.registered_at != NEVER}

    async def _register(self, sockets: list[Socket]) -> None:
        now = asyncio.get_running_loop().time()
        await self._registry.register([socket.registration for socket in sockets])
        for socket in sockets:
            socket.registered_at = now

    def _ask_to_resync(self, sockets: Iterable[Socket]) -> None:
        """Deliveries may have been lost: tell them, spread so that the answers do not come all at once."""
        loop, notice = asyncio.get_running_loop(), frames.plain({"type": "resync"})
        for socket in sockets:
            loop.call_later(random.uniform(0, RESYNC_SPREAD), socket.deliver, notice)  # noqa: S311 - not a secret
