"""Public user data for the other apps. Never contains a phone number."""

from collections.abc import Iterable

from accounts.domain import PublicUser
from accounts.stores.users import UserStore
from foundation.kernel.ids import UserId


class UserDirectory:
    def __init__(self, users: UserStore) -> None:
        self._users = users

    def find_public_users(self, user_ids: Iterable[UserId]) -> dict[UserId, PublicUser]:
        """The users that exist. Absence is confirmed by a strongly consistent read, so callers may rely on it."""
        return {user_id: user.public for user_id, user in self._users.find_all(user_ids).items()}
