"""Users' privacy settings, cached for as long as a notice would tell of a change."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

from accounts.domain import Visibility
from accounts.services.directory import UserDirectory
from foundation.kernel.ids import UserId

TTL = 300.0
CAPACITY = 50_000


class PrivacySettings:
    """For one event loop. A change counts when its notice arrives, and within `TTL` seconds if that is lost."""

    def __init__(self, users: UserDirectory, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._users = users
        self._monotonic = monotonic
        self._known: OrderedDict[UserId, tuple[float, Visibility]] = OrderedDict()
        # Of each read under way, whose settings have not changed since it began.
        self._reads: list[set[UserId]] = []

    async def of(self, user_ids: Iterable[UserId]) -> dict[UserId, Visibility]:
        """The settings of these users; the default for users that do not exist."""
        now, asked = self._monotonic(), set(user_ids)
        found = {user_id: known[1] for user_id in asked if (known := self._known.get(user_id)) and known[0] > now}
        missing = asked - found.keys()
        if missing:
            read, unchanged = await self._read(missing)
            found |= {user_id: read.get(user_id, Visibility()) for user_id in missing}
            for user_id in unchanged:
                self._remember(user_id, now + TTL, found[user_id])
        return found

    async def _read(self, user_ids: set[UserId]) -> tuple[dict[UserId, Visibility], set[UserId]]:
        """The settings, and whose of them were not read before a change."""
        unchanged = set(user_ids)
        self._reads.append(unchanged)
        try:
            return await self._users.find_visibility(user_ids, is_strong=True), unchanged
        finally:
            self._reads = [each for each in self._reads if each is not unchanged]

    def forget(self, user_ids: Iterable[UserId]) -> None:
        """These users have changed their settings."""
        changed = set(user_ids)
        for unchanged in self._reads:
            unchanged.difference_update(changed)
        for user_id in changed:
            self._known.pop(user_id, None)

    def forget_all(self) -> None:
        """Notices may have been lost."""
        for unchanged in self._reads:
            unchanged.clear()
        self._known.clear()

    def _remember(self, user_id: UserId, until: float, settings: Visibility) -> None:
        self._known.pop(user_id, None)
        self._known[user_id] = (until, settings)
        if len(self._known) > CAPACITY:
            self._known.popitem(last=False)
