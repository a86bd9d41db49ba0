"""User data for the other apps. Never contains a phone number."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from accounts.domain import PublicUser, Visibility
from accounts.stores.users import UserStore
from foundation.kernel.ids import UserId

LAST_SEEN_EVERY = timedelta(minutes=1)


class UserDirectory:
    def __init__(self, users: UserStore) -> None:
        self._users = users

    def find_public_users(self, user_ids: Iterable[UserId]) -> dict[UserId, PublicUser]:
        """The users that exist. Absence is confirmed by a strongly consistent read, so callers may rely on it."""
        return {user_id: user.public for user_id, user in self._users.find_all(user_ids).items()}

    async def find_visibility(self, user_ids: Iterable[UserId], *, is_strong: bool = False) -> dict[UserId, Visibility]:
        """What the users that exist let others see, perhaps a moment ago unless `is_strong`. On the service loop."""
        return await self._users.find_visibility(user_ids, is_strong=is_strong)

    async def record_last_seen(self, user_id: UserId, *, now: datetime) -> None:
        """Record when a user's last connection ended: at most once a minute, for who shows its presence."""
        await self._users.record_last_seen(user_id, now=now, unless_since=now - LAST_SEEN_EVERY)
