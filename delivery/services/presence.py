"""Presence: who is online among people who share a chat, and when the others were last.

Redis knows who is online; without it everybody is offline. `last_seen` is kept in `users`. Who hides the own presence
neither shows nor sees it.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from prometheus_client import Counter

from accounts.domain import Visibility
from accounts.services.directory import UserDirectory
from chats.errors import ChatNotFound
from chats.services.posting import Posting
from delivery.services.privacy import PrivacySettings
from delivery.stores.presence import PresenceStore
from foundation.kernel.clock import Clock, to_iso
from foundation.kernel.errors import Unavailable
from foundation.kernel.ids import ChatId, UserId, is_chat_id, is_user_id
from foundation.stores.dynamodb import AsyncDatabase

log = logging.getLogger(__name__)

LAST_SEEN = Counter("parley_last_seen_total", "Users whose last connection ended, by what became of it.", ["outcome"])

RECORD_EVERY = 60.0
MAX_RECENT = 50_000
CONCURRENT_RECORDS = 4
MAX_RECORDS_WAITING = 1_000
FEW = 10
"""Of more users than this none is read before it is known that the caller is in the chat."""


@dataclass(frozen=True, slots=True)
class Status:
    """A user as another may see it. Who hides is offline."""

    user_id: UserId
    is_online: bool = False
    last_seen: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"user_id": self.user_id, "status": "online" if self.is_online else "offline"}
        if self.last_seen is not None and not self.is_online:
            shown["last_seen"] = to_iso(self.last_seen)
        return shown


class Presence:
    """For one event loop."""

    def __init__(
        self,
        store: PresenceStore,
        *,
        database: AsyncDatabase,
        posting: Posting,
        users: UserDirectory,
        privacy: PrivacySettings,
        clock: Clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._database = database
        self._posting = posting
        self._users = users
        self._privacy = privacy
        self._clock = clock
        self._monotonic = monotonic
        self._recorded: OrderedDict[UserId, float] = OrderedDict()
        self._recording = asyncio.Semaphore(CONCURRENT_RECORDS)
        self._records_waiting = 0

    async def list_presence(self, chat_id: ChatId, viewer_id: UserId, user_ids: Collection[UserId]) -> list[Status]:
        """The users who are in the chat, in the order asked. Raises `ChatNotFound` if the viewer is not."""
        members = await self.members_among(chat_id, viewer_id, user_ids)
        statuses = await self.statuses(viewer_id, members)
        return [statuses[user_id] for user_id in dict.fromkeys(user_ids) if user_id in members]

    async def is_member(self, chat_id: ChatId, user_id: UserId) -> bool:
        """Whether the user is in the chat, strongly consistent."""
        try:
            await self.members_among(chat_id, user_id, ())
        except ChatNotFound:
            return False
        return True

    async def members_among(self, chat_id: ChatId, viewer_id: UserId, user_ids: Iterable[UserId]) -> set[UserId]:
        """The users who share this chat with the viewer, strongly consistent. Raises `ChatNotFound`."""
        if not is_chat_id(chat_id):
            raise ChatNotFound
        wanted = set(user_ids)
        if len(wanted) > FEW and not (await self.sharing([(chat_id, viewer_id, ())]))[0]:
            raise ChatNotFound
        (members,) = await self.sharing([(chat_id, viewer_id, wanted)])
        if not members:
            raise ChatNotFound
        return members

    async def sharing(self, lists: Sequence[tuple[ChatId, UserId, Collection[UserId]]]) -> list[set[UserId]]:
        """For each chat, viewer and users: who of them is in the chat, and the viewer; nobody if the viewer is not.

        Strongly consistent, in one read.
        """
        asked = [
            [(chat_id, user_id) for user_id in {*filter(is_user_id, user_ids), viewer_id}]
            for chat_id, viewer_id, user_ids in lists
        ]
        pairs = list(dict.fromkeys(pair for each in asked for pair in each))
        found = await self._database.batch_get(
            {
                **self._posting.membership_lookup(pairs),
                **self._posting.counter_lookup({chat_id for chat_id, _, _ in lists}),
            }
        )
        counters, members = self._posting.counters_among(found), set(self._posting.members_among(found, pairs))
        return [
            {user_id for pair in each if pair in members for user_id in pair[1:]}
            if chat_id in counters and (chat_id, viewer_id) in members
            else set()
            for (chat_id, viewer_id, _), each in zip(lists, asked, strict=True)
        ]

    async def statuses(self, viewer_id: UserId, user_ids: Collection[UserId]) -> dict[UserId, Status]:
        """The users as the viewer may see them."""
        settings = await self._users.find_visibility({viewer_id, *user_ids})
        sees = settings.get(viewer_id, Visibility()).show_presence
        shown = {user_id for user_id in user_ids if sees and settings.get(user_id, Visibility()).show_presence}
        online = await self._online_among(shown)
        return {
            user_id: Status(user_id, user_id in online, settings[user_id].last_seen)
            if user_id in shown and user_id in settings
            else Status(user_id)
            for user_id in user_ids
        }

    async def visible_among(self, user_ids: Collection[UserId]) -> set[UserId]:
        """The users who are online and show it."""
        online = await self._online_among(user_ids)
        settings = await self._privacy.of(online)
        return {user_id for user_id in online if settings[user_id].show_presence}

    async def last_seen_of(self, user_ids: Collection[UserId]) -> dict[UserId, Status]:
        """These users, who are offline or hide."""
        settings = await self._users.find_visibility(user_ids) if user_ids else {}
        return {
            user_id: Status(user_id, last_seen=each.last_seen if each.show_presence else None)
            for user_id in user_ids
            for each in [settings.get(user_id, Visibility())]
        }

    async def _online_among(self, user_ids: Collection[UserId]) -> set[UserId]:
        try:
            return await self._store.online_among(list(user_ids)) if user_ids else set()
        except Unavailable as error:
            log.info("nobody is known to be online: %s", error.detail)
            return set()

    async def leave(self, user_ids: Collection[UserId]) -> None:
        """These users' last connections have ended: take them offline and record when, at most once a minute."""
        try:
            gone = await self._store.leave(user_ids)
        except Unavailable as error:
            log.info("presence is left to expire: %s", error.detail)
            return
        await asyncio.gather(*map(self._record, gone))

    async def _record(self, user_id: UserId) -> None:
        """Best effort, few at a time: a mass disconnect must not use up the table's capacity."""
        now = self._monotonic()
        if now - self._recorded.get(user_id, float("-inf")) < RECORD_EVERY:
            return
        if self._records_waiting >= MAX_RECORDS_WAITING:
            LAST_SEEN.labels("dropped").inc()
            return
        self._recorded.pop(user_id, None)
        self._recorded[user_id] = now
        if len(self._recorded) > MAX_RECENT:
            self._recorded.popitem(last=False)
        self._records_waiting += 1
        try:
            async with self._recording:
                await self._users.record_last_seen(user_id, now=self._clock.now())
            LAST_SEEN.labels("recorded").inc()
        except Unavailable as error:
            LAST_SEEN.labels("failed").inc()
            log.info("last_seen is not recorded: %s", error.detail)
        finally:
            self._records_waiting -= 1
