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
        self._changes = 0

    async def of(self, user_ids: Iterable[UserId]) -> dict[UserId, Visibility]:
        """The settings of these users; the default for users that do not exist."""
        now, asked = self._monotonic(), set(user_ids)
        found = {user_id: known[1] for user_id in asked if (known := self._known.get(user_id)) and known[0] > now}
        missing = asked - found.keys()
        if missing:
            changes = self._changes
            read = await self._users.find_visibility(missing, is_strong=True)
            found |= {user_id: read.get(user_id, Visibility()) for user_id in missing}
            if self._changes == changes:  # else it may have been read before a change
                for user_id in missing:
                    self._remember(user_id, now + TTL, found[user_id])
        return found

    def forget(self, user_ids: Iterable[UserId]) -> None:
        """These users have changed their settings."""
        self._changes += 1
        for user_id in user_ids:
            self._known.pop(user_id, None)

    def forget_all(self) -> None:
        """Notices may have been lost."""
        self._changes += 1
        self._known.clear()

    def _remember(self, user_id: UserId, until: float, settings: Visibility) -> None:
        self._known.pop(user_id, None)
        self._known[user_id] = (until, settings)
        if len(self._known) > CAPACITY:
            self._known.popitem(last=False)
