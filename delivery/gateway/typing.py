"""Who is typing: forwarded from one connection to the online members of a small chat, and forgotten.

The sender's gateway checks the membership and limits the pace; the receivers' gateway shows few typists at a time and
ends what is not renewed. Nothing is stored.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from chats.errors import ChatNotFound
from delivery.gateway.broadcast import Broadcast, LiveFrame
from delivery.gateway.frames import shared
from delivery.gateway.sockets import Socket
from foundation.kernel.errors import ParleyError
from foundation.kernel.ids import ChatId, ConnectionId, UserId
from foundation.stores.redis.limits import Charge, Limit, LocalRateLimiter

log = logging.getLogger(__name__)

FORWARD_EVERY = 2.0
OVER_AFTER = 6.0
MAX_TYPISTS = 3
MEMBERSHIP_TTL = 30.0
MAX_MEMBERSHIPS = 20_000
# Starts that one user may make in all chats, over all connections: each is forwarded to a hundred members, and may cost
# a read of a membership.
STARTS = Limit("typing", rate=1.0, burst=8)
# Chats in which one connection is typing; the oldest is dropped. Within `OVER_AFTER` there are at most 14 starts, so
# what is dropped has ended for the receivers, and its pace is over.
MAX_CHATS = 16

IsMember = Callable[[ChatId, UserId], Awaitable[bool]]


@dataclass(slots=True)
class _Typing:
    """When a connection's typing in a chat was forwarded last, and whether an end is still to be forwarded."""

    forwarded_at: float
    is_active: bool


class TypingForwarder:
    """Forwards what this gateway's connections type. For one event loop."""

    def __init__(
        self, broadcast: Broadcast, *, is_member: IsMember, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._broadcast = broadcast
        self._is_member = is_member
        self._monotonic = monotonic
        self._starts = LocalRateLimiter(monotonic=monotonic)
        self._by_connection: dict[ConnectionId, OrderedDict[ChatId, _Typing]] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._memberships: OrderedDict[tuple[ChatId, UserId], float] = OrderedDict()
        # For as long as something is being forwarded.
        self._locks: WeakValueDictionary[tuple[ChatId, UserId], asyncio.Lock] = WeakValueDictionary()

    def is_due(self, connection_id: ConnectionId, user_id: UserId, chat_id: ChatId, *, active: bool) -> bool:
        """Whether to forward this, and note it as forwarded: an end after a start, a start at most every two seconds.

        Beyond `STARTS`, none of the user's.
        """
        chats = self._by_connection.get(connection_id)
        known = None if chats is None else chats.get(chat_id)
        now = self._monotonic()
        if not active:
            if known is None or not known.is_active:
                return False
            known.is_active = False
            return True
        if known is not None and now - known.forwarded_at < FORWARD_EVERY:
            return False
        if not self._starts.take_all([Charge(STARTS, user_id)]).allowed:
            return False
        chats = self._by_connection.setdefault(connection_id, OrderedDict())
        chats[chat_id] = _Typing(now, is_active=True)
        chats.move_to_end(chat_id)
        if len(chats) > MAX_CHATS:
            chats.popitem(last=False)
        return True

    async def forward(self, user_id: UserId, chat_id: ChatId, *, active: bool) -> None:
        """Tell the other members, in the order of the calls for this user. Raises `ChatNotFound` for who is none."""
        lock = self._locks.setdefault((chat_id, user_id), asyncio.Lock())
        async with lock:
            await self._require_member(chat_id, user_id)
            frame = {"type": "typing", "chat_id": chat_id, "user_id": user_id, "active": active}
            await self._broadcast.send(LiveFrame(chat_id, frame, except_user=user_id))

    def end(self, connection_id: ConnectionId, user_id: UserId) -> None:
        """The connection is gone: nobody is typing there any more."""
        for chat_id, typing in self._by_connection.pop(connection_id, OrderedDict()).items():
            if typing.is_active:
                ending = asyncio.ensure_future(self._end(user_id, chat_id))
                self._endings.add(ending)
                ending.add_done_callback(self._endings.discard)

    def member_left(self, chat_id: ChatId, user_id: UserId) -> None:
        """Read the membership again before anything more is forwarded."""
        self._memberships.pop((chat_id, user_id), None)

    async def _end(self, user_id: UserId, chat_id: ChatId) -> None:
        """Best effort. The start may have been refused, and then there is nothing to end."""
        try:
            await self.forward(user_id, chat_id, active=False)
        except ParleyError as error:
            log.info("the end of typing is not forwarded: %s", error.detail)

    async def _require_member(self, chat_id: ChatId, user_id: UserId) -> None:
        """Strongly consistent, remembered for half a minute."""
        pair, now = (chat_id, user_id), self._monotonic()
        if self._memberships.get(pair, now) <= now:
            if not await self._is_member(chat_id, user_id):
                raise ChatNotFound
            self._memberships.pop(pair, None)
            self._memberships[pair] = now + MEMBERSHIP_TTL
            if len(self._memberships) > MAX_MEMBERSHIPS:
                self._memberships.popitem(last=False)


@dataclass(slots=True)
class _Typist:
    sockets: Collection[Socket]
    expiry: asyncio.TimerHandle


class TypingDelivery:
    """Shows at most three typists of a chat to this gateway's sockets, each until it ends or is not renewed."""

    def __init__(self) -> None:
        self._typists: dict[str, dict[str, _Typist]] = {}

    async def deliver(self, frame: dict[str, Any], sockets: Collection[Socket]) -> None:
        typists = self._typists.get(frame["chat_id"], {})
        if frame["active"]:
            if frame["user_id"] not in typists and len(typists) >= MAX_TYPISTS:
                return
            self._renew(frame, sockets)
        elif self._forget(frame["chat_id"], frame["user_id"]) is None:
            return
        _write(frame, sockets)

    def _renew(self, frame: dict[str, Any], sockets: Collection[Socket]) -> None:
        chat_id, user_id = frame["chat_id"], frame["user_id"]
        self._forget(chat_id, user_id)
        expiry = asyncio.get_running_loop().call_later(OVER_AFTER, self._expire, frame)
        self._typists.setdefault(chat_id, {})[user_id] = _Typist(sockets, expiry)

    def _expire(self, frame: dict[str, Any]) -> None:
        typist = self._forget(frame["chat_id"], frame["user_id"])
        if typist is not None:
            _write({**frame, "active": False}, typist.sockets)

    def _forget(self, chat_id: str, user_id: str) -> _Typist | None:
        typists = self._typists.get(chat_id, {})
        typist = typists.pop(user_id, None)
        if not typists:
            self._typists.pop(chat_id, None)
        if typist is not None:
            typist.expiry.cancel()
        return typist


def _write(frame: dict[str, Any], sockets: Collection[Socket]) -> None:
    encoded = shared(frame)
    for socket in sockets:
        socket.deliver(encoded)
