"""A gateway: the sockets of one process, and the tasks that register them and close those whose session has ended.

While Redis is away, sockets stay and sends and syncs work; pushes resume when it is back. Pub/sub loses what was
published meanwhile, so every socket is then told to `resync`: its client reads from DynamoDB what it missed.
"""

import asyncio
import logging
import random
from collections import Counter as Tally
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any

import redis.asyncio
from prometheus_client import Counter, Gauge
from redis.exceptions import RedisError

from delivery.gateway import frames
from delivery.gateway.closing import Close
from delivery.gateway.coalescer import Coalescer
from delivery.gateway.control import ControlNotice
from delivery.gateway.deliveries import Deliveries
from delivery.gateway.live import LiveUpdates
from delivery.gateway.sockets import Socket
from delivery.stores.connections import ConnectionRegistry, Registration
from foundation.kernel.errors import Unavailable
from foundation.kernel.ids import ConnectionId, SessionId, UserId
from foundation.stores.errors import StoreUnavailable

log = logging.getLogger(__name__)

CONNECTIONS = Gauge("parley_gateway_connections", "Open sockets of this process.")
REGISTRY_LOST = Counter("parley_gateway_registry_lost_total", "Times Redis no longer knew this gateway's connections.")

UNREGISTERED = float("-inf")
TICK = 1.0
SUBSCRIBED_WITHIN = 1.0
REFRESH_AFTER = 20.0
RECHECK_AFTER = 30.0
RECHECK_BATCH = 100
# Resyncs are spread over at least this many seconds, and so that no more than this many start in one.
RESYNC_SPREAD = 1.0
RESYNCS_PER_SECOND = 500
REGISTER_BATCH = 200
DRAIN_SPREAD = 3.0
RECENTLY_ENDED = 1_000
# Seconds for which a handshake may have begun before the user was suspended.
JUST_SUSPENDED = 10.0


class Hub:
    """One per process, for its event loop. `max_per_user` limits the sockets of one user in this process."""

    def __init__(
        self,
        *,
        gateway_id: str,
        client: "redis.asyncio.Redis",
        sessions_ended: Callable[[Iterable[SessionId]], None],
        users_changed: Callable[[Collection[UserId]], None],
        control: Callable[[], Awaitable[ControlNotice]],
        ended_among: Callable[[Mapping[SessionId, UserId]], Awaitable[Iterable[SessionId]]],
        live: LiveUpdates,
        max_per_user: int,
    ) -> None:
        self.gateway_id = gateway_id
        self.draining = False
        self._registry = ConnectionRegistry(client, gateway_id=gateway_id)
        self._sessions_ended = sessions_ended
        self._users_changed = users_changed
        self._control = control
        self._ended_among = ended_among
        self._live = live
        self._sockets: dict[str, Socket] = {}
        self._deliveries = Deliveries(
            client, gateway_id=gateway_id, sockets=self._sockets, live=live, on_lost=self._on_deliveries_lost
        )
        self._max_per_user = max_per_user
        self._by_user: Tally[UserId] = Tally()
        # In the order of their last registration, the longest ago first.
        self._registered: dict[str, Socket] = {}
        # Sockets whose registration failed.
        self._unregistered: dict[str, Socket] = {}
        self._unregistrations = 0
        # Sockets that are still to be told to resync.
        self._resyncing: set[ConnectionId] = set()
        self._tasks: list[asyncio.Task[None]] = []
        # Registrations and their removals take turns, so that a removal is never overtaken.
        self._registry_lock = asyncio.Lock()
        self._registering = Coalescer(self._register, lock=self._registry_lock)
        self._unregistering = Coalescer(self._unregister, lock=self._registry_lock)
        self._recently_ended: deque[SessionId] = deque(maxlen=RECENTLY_ENDED)
        self._suspended_at: dict[UserId, float] = {}
        self._moving: asyncio.Future[list[Socket]] | None = None

    async def start(self) -> None:
        """Start the tasks, once; return when deliveries can arrive, or soon if Redis is away.

        `web` starts them with the process, because its REST requests use caches that control messages invalidate.
        Under another server the first connection does.
        """
        if not self._tasks:
            self._tasks = [
                asyncio.ensure_future(self._deliveries.run()),
                asyncio.ensure_future(self._forever(self._listen, "control")),
                asyncio.ensure_future(self._forever(self._tend, "registry")),
                asyncio.ensure_future(self._forever(self._recheck, "sessions")),
            ]
        try:
            async with asyncio.timeout(SUBSCRIBED_WITHIN):
                await self._deliveries.subscribed.wait()
        except TimeoutError:
            log.warning("no subscription yet: pushes will start when Redis is back")

    async def add(self, socket: Socket) -> None:
        """Accept deliveries, then register the connection: whoever finds it in Redis can reach it.

        Closes the socket instead if its user has too many.
        """
        name, user_id = socket.registration.connection_id, socket.registration.user_id
        if self._by_user[user_id] >= self._max_per_user:
            socket.end(Close.RATE_LIMITED)
            return
        self._by_user[user_id] += 1
        self._sockets[name] = socket
        CONNECTIONS.set(len(self._sockets))
        if socket.registration.session_id in self._recently_ended or self._is_just_suspended(user_id):
            socket.end(Close.SESSION_REVOKED)
        try:
            await self._registering.add(socket)
        except Unavailable as error:
            log.warning("a connection is not registered yet: %s", error.detail)
        if name in self._sockets and name not in self._registered:
            self._unregistered[name] = socket

    async def remove(self, socket: Socket) -> None:
        name, user_id = socket.registration.connection_id, socket.registration.user_id
        if self._sockets.pop(name, None) is None:
            return
        self._by_user[user_id] -= 1
        if not self._by_user[user_id]:
            del self._by_user[user_id]
        CONNECTIONS.set(len(self._sockets))
        self._unregistered.pop(name, None)
        if self._registered.pop(name, None) is not None:
            self._unregistrations += 1
        try:
            await self._unregistering.add(socket.registration)
        except Unavailable as error:
            log.info("a connection is left to expire: %s", error.detail)

    async def drain(self, *, spread: float = DRAIN_SPREAD) -> None:
        """For the end of the process: take no new socket, let all clients move on, then stop."""
        self.draining = True
        sockets = await self._move_clients(spread)
        try:
            async with self._registry_lock:
                await self._registry.unregister([socket.registration for socket in sockets])
        except Unavailable as error:
            log.info("connections are left to expire: %s", error.detail)
        for task in self._tasks:
            task.cancel()

    async def _move_clients(self, spread: float) -> list[Socket]:
        """Close every socket while this gateway drains, spread over a few seconds so that not all reconnect at once.

        Each has its time: timers round to milliseconds, which would add up.
        """
        sockets, loop = list(self._sockets.values()), asyncio.get_running_loop()
        random.shuffle(sockets)
        started = loop.time()
        for number, socket in enumerate(sockets, start=1):
            if not self.draining:  # resumed meanwhile
                break
            socket.end(Close.RESTART)
            await asyncio.sleep(max(0.0, started + spread * number / len(sockets) - loop.time()))
        return sockets

    def require_open(self) -> None:
        """For `/readyz`. Raises `StoreUnavailable` while this gateway takes no connections."""
        if self.draining:
            raise StoreUnavailable(f"{self.gateway_id} is drained: `manage.py drain {self.gateway_id} --undo`")

    async def _forever(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        """Restart a task after a jittered pause whenever Redis, or a bug, ends it."""
        while True:
            try:
                await work()
            except (RedisError, Unavailable, OSError) as error:
                log.warning("%s: an engine is away (%s)", name, type(error).__name__)
            except Exception:
                log.exception("%s failed", name)
            await asyncio.sleep(random.uniform(0.1, 0.5))  # noqa: S311 - not a secret

    def _on_deliveries_lost(self) -> None:
        self._live.on_notices_lost()
        self._ask_to_resync(self._sockets.values())

    async def _listen(self) -> None:
        """Follow what other processes say of sessions, users, their settings, and this gateway."""
        while True:
            notice = await self._control()
            self._sessions_ended(notice.ended)
            self._users_changed(notice.suspended | notice.restored)
            if notice.may_follow_a_gap:
                self._live.on_notices_lost()
            self._live.on_privacy_changed(notice.privacy_changed)
            # Also for sockets that are still registering.
            self._recently_ended.extend(notice.ended)
            self._note_suspensions(notice)
            self._end_sessions(notice.ended)
            self._end_users(notice.suspended)
            self._follow(notice)

    def _follow(self, notice: ControlNotice) -> None:
        """Drain or resume, if this gateway is meant."""
        if notice.drained == self.gateway_id and not self.draining:
            log.warning("drained by an operator: %d clients move on", len(self._sockets))
            self.draining = True
            self._moving = asyncio.ensure_future(self._move_clients(DRAIN_SPREAD))
        elif notice.resumed == self.gateway_id:
            log.warning("resumed by an operator")
            self.draining = False

    def _note_suspensions(self, notice: ControlNotice) -> None:
        now = asyncio.get_running_loop().time()
        self._suspended_at = {
            user_id: at
            for user_id, at in self._suspended_at.items()
            if at > now - JUST_SUSPENDED and user_id not in notice.restored
        } | dict.fromkeys(notice.suspended, now)

    def _is_just_suspended(self, user_id: UserId) -> bool:
        """Whether the suspension may have come after the handshake's own check."""
        return self._suspended_at.get(user_id, UNREGISTERED) > asyncio.get_running_loop().time() - JUST_SUSPENDED

    def _end_users(self, suspended: Collection[UserId]) -> None:
        for socket in list(self._sockets.values()) if suspended else ():
            if socket.registration.user_id in suspended:
                socket.end(Close.SESSION_REVOKED)

    def _end_sessions(self, ended: Collection[SessionId]) -> None:
        for socket in list(self._sockets.values()) if ended else ():
            if socket.registration.session_id in ended:
                socket.end(Close.SESSION_REVOKED)

    async def _recheck(self) -> None:
        """Every half minute, read sessions and users from DynamoDB: a notice may have been lost without Redis.

        In batches, so that messages do not wait behind the sessions of thousands of sockets.
        """
        while True:
            await asyncio.sleep(RECHECK_AFTER)
            registrations = [socket.registration for socket in self._sockets.values()]
            open_sessions = list({each.session_id: each.user_id for each in registrations}.items())
            for start in range(0, len(open_sessions), RECHECK_BATCH):
                batch = dict(open_sessions[start : start + RECHECK_BATCH])
                self._end_sessions(set(await self._ended_among(batch)))

    async def _tend(self) -> None:
        """Every second: refresh registrations that are due, and register again what Redis has lost."""
        while True:
            if await self._is_registry_lost():
                REGISTRY_LOST.inc()
                log.warning("Redis has lost this gateway's connections: registering %d again", len(self._sockets))
                self._unregistered |= self._registered
                self._registered.clear()
            await self._register_missing()
            await self._refresh()
            await asyncio.sleep(TICK)

    async def _is_registry_lost(self) -> bool:
        """Whether Redis knows fewer connections than were registered before and after the question.

        Knowing any is not enough: the first that connects after a loss is known.
        """
        before, unregistrations = len(self._registered), self._unregistrations
        known = await self._registry.count() if before else 0
        return known < before - (self._unregistrations - unregistrations)

    async def _register_missing(self) -> None:
        """Register the sockets that Redis does not know. Deliveries to them were lost, so they resync."""
        registered: list[Socket] = []
        try:
            while batch := list(islice(self._unregistered.values(), REGISTER_BATCH)):
                async with self._registry_lock:
                    await self._register(batch)
                registered += batch
        finally:
            self._ask_to_resync(registered)

    async def _refresh(self) -> None:
        """Refresh the registrations that are due, in batches, so that an engine that is away costs one batch."""
        due_before = asyncio.get_running_loop().time() - REFRESH_AFTER
        while batch := list(
            takewhile(
                lambda socket: socket.registered_at < due_before, islice(self._registered.values(), REGISTER_BATCH)
            )
        ):
            # Redis may have dropped these meanwhile, and deliveries with them.
            late = [socket for socket in batch if socket.registered_at < due_before - REFRESH_AFTER]
            async with self._registry_lock:
                await self._register(batch)
            self._ask_to_resync(late)

    async def _register(self, sockets: Iterable[Socket]) -> None:
        """Register or refresh the sockets that have not left. Runs under the lock of the registry."""
        present = [socket for socket in sockets if socket.registration.connection_id in self._sockets]
        now = asyncio.get_running_loop().time()
        await self._registry.register([socket.registration for socket in present])
        for socket in present:
            name = socket.registration.connection_id
            self._registered.pop(name, None)
            self._unregistered.pop(name, None)
            if name in self._sockets:
                socket.registered_at = now
                self._registered[name] = socket

    async def _unregister(self, registrations: Sequence[Registration]) -> None:
        """Unregister connections. While this gateway drains, its users are about to be back elsewhere."""
        gone = await self._registry.unregister(registrations)
        if gone and not self.draining:
            self._live.on_users_gone(gone)

    def _ask_to_resync(self, sockets: Collection[Socket]) -> None:
        """Tell sockets that deliveries may have been lost, spread so that their syncs do not come all at once.

        One that is still to be told is not told twice: Redis that comes back empty is noticed by the subscription and
        by the registry.
        """
        loop = asyncio.get_running_loop()
        untold = [socket for socket in sockets if socket.registration.connection_id not in self._resyncing]
        spread = max(RESYNC_SPREAD, len(untold) / RESYNCS_PER_SECOND)
        for socket in untold:
            self._resyncing.add(socket.registration.connection_id)
            loop.call_later(random.uniform(0, spread), self._resync, socket)  # noqa: S311 - not a secret

    def _resync(self, socket: Socket) -> None:
        self._resyncing.discard(socket.registration.connection_id)
        socket.deliver(frames.plain({"type": "resync"}))
