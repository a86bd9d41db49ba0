"""Presence for the connections that watch it: what they see at first, then every change within ten seconds.

Gateways read the keys of watched users; there is no index of watchers, and nothing to lose with Redis.
"""

import asyncio
import logging
import time
from collections import Counter as Tally
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from delivery.gateway.frames import Frame, shared
from delivery.services.presence import Presence, Status
from delivery.services.privacy import PrivacySettings
from foundation.kernel.errors import Invalid, ParleyError, Unavailable
from foundation.kernel.ids import ChatId, ConnectionId, UserId

log = logging.getLogger(__name__)

LOOK_EVERY = 10.0
RECHECK_AFTER = 300.0
MAX_WATCHED = 200
WATCHERS_PER_TURN = 500
RECHECKS_PER_ROUND = 50


@dataclass(slots=True)
class _Watch:
    """The users of one chat that a connection watches, and when their memberships were read."""

    user_ids: frozenset[UserId]
    checked_at: float


@dataclass(slots=True)
class _Watcher:
    user_id: UserId
    deliver: Callable[[Frame], None]
    chats: dict[ChatId, _Watch] = field(default_factory=dict)

    def watched_among(self, user_ids: set[UserId]) -> set[UserId]:
        return {user_id for watch in self.chats.values() for user_id in watch.user_ids & user_ids}


class PresenceWatchers:
    """For one event loop."""

    def __init__(
        self, presence: Presence, *, privacy: PrivacySettings, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._presence = presence
        self._privacy = privacy
        self._monotonic = monotonic
        self._watchers: dict[ConnectionId, _Watcher] = {}
        self._counts: Tally[UserId] = Tally()
        self._visible: set[UserId] = set()
        self._task: asyncio.Task[None] | None = None

    async def watch(
        self,
        connection_id: ConnectionId,
        user_id: UserId,
        deliver: Callable[[Frame], None],
        *,
        chat_id: ChatId,
        user_ids: Collection[UserId],
    ) -> None:
        """Replace the list of a chat, and send the status of each who is in it.

        Raises `ChatNotFound`, and `Invalid` if the connection would watch too many.
        """
        self._require_room(connection_id, chat_id, len(set(user_ids)))
        members = await self._presence.members_among(chat_id, user_id, user_ids)
        watched = frozenset(members & set(user_ids))
        # Other lists of the connection may have been set during the read.
        self._require_room(connection_id, chat_id, len(watched))
        watcher = self._watchers.get(connection_id) or _Watcher(user_id, deliver)
        self._replace(connection_id, watcher, chat_id, watched)
        statuses = await self._presence.statuses(user_id, watched)
        for each in statuses.values():
            deliver(_frame(each))
        # What is shown now is no change in the next round.
        self._visible |= {each.user_id for each in statuses.values() if each.is_online}

    def _require_room(self, connection_id: ConnectionId, chat_id: ChatId, count: int) -> None:
        """Raises `Invalid` if the connection would watch too many."""
        watcher = self._watchers.get(connection_id)
        chats = {} if watcher is None else watcher.chats
        if count + sum(len(watch.user_ids) for other, watch in chats.items() if other != chat_id) > MAX_WATCHED:
            raise Invalid(f"A connection watches at most {MAX_WATCHED} users")

    def leave(self, connection_id: ConnectionId) -> None:
        """The connection is gone."""
        watcher = self._watchers.pop(connection_id, None)
        for watch in watcher.chats.values() if watcher is not None else ():
            self._uncount(watch.user_ids)

    def member_left(self, chat_id: ChatId, user_id: UserId) -> None:
        """Stop showing members of the chat to who left it, and who left it to its members."""
        for connection_id, watcher in list(self._watchers.items()):
            watch = watcher.chats.get(chat_id)
            if watch is not None:
                kept = frozenset() if watcher.user_id == user_id else watch.user_ids - {user_id}
                self._replace(connection_id, watcher, chat_id, kept)

    def _replace(
        self, connection_id: ConnectionId, watcher: _Watcher, chat_id: ChatId, user_ids: frozenset[UserId]
    ) -> None:
        former = watcher.chats.pop(chat_id, None)
        self._counts.update(user_ids)
        self._uncount(former.user_ids if former is not None else ())
        if user_ids:
            watcher.chats[chat_id] = _Watch(user_ids, self._monotonic())
        if watcher.chats:
            self._watchers[connection_id] = watcher
        else:
            self._watchers.pop(connection_id, None)
        if self._watchers and self._task is None:
            self._task = asyncio.ensure_future(self._look_while_watched())

    def _uncount(self, user_ids: Iterable[UserId]) -> None:
        for user_id in user_ids:
            self._counts[user_id] -= 1
            if not self._counts[user_id]:
                del self._counts[user_id]
                self._visible.discard(user_id)

    async def _look_while_watched(self) -> None:
        while self._watchers:
            await asyncio.sleep(LOOK_EVERY)
            try:
                await self.look()
                await self._recheck()
            except Unavailable as error:
                log.info("presence is not read: %s", error.detail)
            except Exception:
                log.exception("presence is not read")
        self._task = None

    async def look(self) -> None:
        """Read who is online, and send the differences."""
        visible = await self._presence.visible_among(list(self._counts))
        changed = visible ^ self._visible
        if not changed:
            return
        self._visible = visible
        gone = await self._presence.last_seen_of(changed - visible)
        frames = {user_id: _frame(gone.get(user_id) or Status(user_id, is_online=True)) for user_id in changed}
        for number, watcher in enumerate(list(self._watchers.values())):
            if number % WATCHERS_PER_TURN == WATCHERS_PER_TURN - 1:
                await asyncio.sleep(0)
            if news := watcher.watched_among(changed):
                await self._tell(watcher, [frames[user_id] for user_id in news])

    async def _tell(self, watcher: _Watcher, news: Iterable[Frame]) -> None:
        settings = await self._privacy.of([watcher.user_id])
        if settings[watcher.user_id].show_presence:
            for frame in news:
                watcher.deliver(frame)

    async def _recheck(self) -> None:
        """Read memberships again that were read long ago, some in each round."""
        before = self._monotonic() - RECHECK_AFTER
        old = [
            (connection_id, watcher, chat_id, watch.user_ids)
            for connection_id, watcher in self._watchers.items()
            for chat_id, watch in watcher.chats.items()
            if watch.checked_at < before
        ]
        for connection_id, watcher, chat_id, user_ids in old[:RECHECKS_PER_ROUND]:
            try:
                members = await self._presence.members_among(chat_id, watcher.user_id, user_ids)
            except Unavailable:
                raise
            except ParleyError:
                members = set()
            if connection_id in self._watchers and chat_id in watcher.chats:
                self._replace(connection_id, watcher, chat_id, user_ids & members)


def _frame(status: Status) -> Frame:
    return shared({"type": "presence", **status.to_json()})
