"""Presence for the connections that watch it: what they see at first, then every change within ten seconds.

What each connection was shown last is remembered, and it is sent the differences: a change that could not be sent is
sent by the next refresh. Gateways read the keys of watched users: there is no index of watchers, and nothing to lose
with Redis.
"""

import asyncio
import logging
import time
from collections import Counter as Tally
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from delivery.gateway.frames import Frame, shared
from delivery.services.presence import Presence, Status
from delivery.services.privacy import PrivacySettings
from foundation.kernel.errors import Invalid, Unavailable
from foundation.kernel.ids import ChatId, ConnectionId, UserId

log = logging.getLogger(__name__)

REFRESH_EVERY = 10.0
RECHECK_AFTER = 300.0
MAX_WATCHED = 200
WATCHERS_PER_TURN = 500
# Keys that a refresh reads again, at most and about; those that were read the longest ago come first.
RECHECKED_KEYS = 1_000


@dataclass(slots=True)
class _Watcher:
    """A connection: whom it watches, by chat, and who of them was shown as online."""

    user_id: UserId
    deliver: Callable[[Frame], None]
    chats: dict[ChatId, frozenset[UserId]] = field(default_factory=dict)
    online: set[UserId] = field(default_factory=set)

    def watched(self) -> set[UserId]:
        return set().union(*self.chats.values())

    def show(self, status: Status) -> None:
        self.deliver(shared({"type": "presence", **status.to_json()}))
        if status.is_online:
            self.online.add(status.user_id)
        else:
            self.online.discard(status.user_id)


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
        # When the memberships of each list were read, the longest ago first.
        self._checked_at: OrderedDict[tuple[ConnectionId, ChatId], float] = OrderedDict()
        # Shown since the refresh began: what it has read of them may be older.
        self._just_shown: dict[ConnectionId, set[UserId]] = {}
        # Their settings have changed since the last refresh.
        self._changed_settings: set[UserId] = set()
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
        wanted = frozenset(user_ids)
        self._require_room(connection_id, chat_id, len(wanted))
        members = await self._presence.members_among(chat_id, user_id, wanted) if wanted else set()
        watched = frozenset(members & wanted)
        # Other lists of the connection may have been set during the read.
        self._require_room(connection_id, chat_id, len(watched))
        watcher = self._watchers.get(connection_id) or _Watcher(user_id, deliver)
        self._replace(connection_id, watcher, chat_id, watched)
        statuses = await self._presence.statuses(user_id, watched)
        if self._watchers.get(connection_id) is watcher:
            shown = statuses.keys() & watcher.watched()
            self._just_shown.setdefault(connection_id, set()).update(shown)
            for each in shown:
                watcher.show(statuses[each])

    def _require_room(self, connection_id: ConnectionId, chat_id: ChatId, count: int) -> None:
        """Raises `Invalid` if the connection would watch too many."""
        watcher = self._watchers.get(connection_id)
        chats = {} if watcher is None else watcher.chats
        if count + sum(len(user_ids) for other, user_ids in chats.items() if other != chat_id) > MAX_WATCHED:
            raise Invalid(f"A connection watches at most {MAX_WATCHED} users")

    def leave(self, connection_id: ConnectionId) -> None:
        """The connection is gone."""
        watcher = self._watchers.pop(connection_id, None)
        self._just_shown.pop(connection_id, None)
        for chat_id, user_ids in watcher.chats.items() if watcher is not None else ():
            self._checked_at.pop((connection_id, chat_id), None)
            self._uncount(user_ids)

    def member_left(self, chat_id: ChatId, user_id: UserId) -> None:
        """Stop showing members of the chat to who left it, and who left it to its members."""
        for connection_id, watcher in list(self._watchers.items()):
            user_ids = watcher.chats.get(chat_id)
            if user_ids is not None:
                kept = frozenset() if watcher.user_id == user_id else user_ids - {user_id}
                self._replace(connection_id, watcher, chat_id, kept)

    def privacy_changed(self, user_ids: Collection[UserId]) -> None:
        """Show these users, and what they watch, again with the next refresh."""
        if self._watchers:
            self._changed_settings.update(user_ids)

    def _replace(
        self, connection_id: ConnectionId, watcher: _Watcher, chat_id: ChatId, user_ids: frozenset[UserId]
    ) -> None:
        former = watcher.chats.pop(chat_id, frozenset())
        self._checked_at.pop((connection_id, chat_id), None)
        self._counts.update(user_ids)
        self._uncount(former)
        if user_ids:
            watcher.chats[chat_id] = user_ids
            self._checked_at[connection_id, chat_id] = self._monotonic()
        watcher.online &= watcher.watched()
        if watcher.chats:
            self._watchers[connection_id] = watcher
        else:
            self._watchers.pop(connection_id, None)
        if self._watchers and self._task is None:
            self._task = asyncio.ensure_future(self._refresh_while_watched())

    def _uncount(self, user_ids: Iterable[UserId]) -> None:
        for user_id in user_ids:
            self._counts[user_id] -= 1
            if not self._counts[user_id]:
                del self._counts[user_id]

    async def _refresh_while_watched(self) -> None:
        while self._watchers:
            await asyncio.sleep(REFRESH_EVERY)
            try:
                await self.refresh()
                await self._recheck()
            except Unavailable as error:
                log.info("presence is not read: %s", error.detail)
            except Exception:
                log.exception("presence is not read")
        self._changed_settings.clear()
        self._task = None

    async def refresh(self) -> None:
        """Read who is online, and send each watcher the differences to what it was shown."""
        self._just_shown = {}
        changed, self._changed_settings = self._changed_settings, set()
        try:
            snapshot = _Snapshot(await self._presence.visible_among(list(self._counts)), changed)
            connection_ids = list(self._watchers)
            for start in range(0, len(connection_ids), WATCHERS_PER_TURN):
                await self._show_differences(connection_ids[start : start + WATCHERS_PER_TURN], snapshot)
                await asyncio.sleep(0)
        except BaseException:
            self._changed_settings |= changed
            raise

    async def _show_differences(self, connection_ids: Collection[ConnectionId], snapshot: "_Snapshot") -> None:
        news = {each: found for each in connection_ids if (found := self._differences(each, snapshot))}
        if not news:
            return
        settings = await self._privacy.of({self._watchers[each].user_id for each in news})
        unread = set().union(*news.values()) - snapshot.visible - snapshot.absent.keys()
        snapshot.absent |= await self._presence.last_seen_of(unread)
        for connection_id, user_ids in news.items():
            # Of what has changed during the reads, the next refresh sends what is left.
            for user_id in user_ids & self._differences(connection_id, snapshot):
                watcher = self._watchers[connection_id]
                if settings[watcher.user_id].show_presence:
                    watcher.show(
                        Status(user_id, is_online=True) if user_id in snapshot.visible else snapshot.absent[user_id]
                    )
                elif user_id in watcher.online or watcher.user_id in snapshot.changed_settings:
                    watcher.show(Status(user_id))

    def _differences(self, connection_id: ConnectionId, snapshot: "_Snapshot") -> set[UserId]:
        """Whom this connection may have to be shown again."""
        watcher = self._watchers.get(connection_id)
        if watcher is None:
            return set()
        watched = watcher.watched()
        if watcher.user_id in snapshot.changed_settings:
            return watched
        differing = (watched & snapshot.visible) ^ watcher.online
        return (differing - self._just_shown.get(connection_id, set())) | (watched & snapshot.changed_settings)

    async def _recheck(self) -> None:
        """Read memberships and settings again that were read long ago: a notice of a change may have been lost."""
        before, old, keys = self._monotonic() - RECHECK_AFTER, list[tuple[ConnectionId, ChatId]](), 0
        for (connection_id, chat_id), checked_at in self._checked_at.items():
            if checked_at >= before or keys >= RECHECKED_KEYS:
                break
            old.append((connection_id, chat_id))
            keys += len(self._watchers[connection_id].chats[chat_id]) + 2  # the viewer's membership, and the chat
        if not old:
            return
        lists = [(chat_id, (of := self._watchers[each]).user_id, of.chats[chat_id]) for each, chat_id in old]
        sharing = await self._presence.sharing(lists)
        settings = await self._privacy.of({viewer for _, viewer, _ in lists})
        for (connection_id, chat_id), (_, viewer, user_ids), members in zip(old, lists, sharing, strict=True):
            watcher = self._watchers.get(connection_id)
            if watcher is None or watcher.chats.get(chat_id) is not user_ids:
                continue
            self._replace(connection_id, watcher, chat_id, user_ids & members)
            if watcher.online and not settings[viewer].show_presence:
                self._changed_settings.add(viewer)


@dataclass(slots=True)
class _Snapshot:
    """What a refresh has read: who is online and shows it, and the others as they were asked for."""

    visible: set[UserId]
    changed_settings: set[UserId]
    absent: dict[UserId, Status] = field(default_factory=dict)
