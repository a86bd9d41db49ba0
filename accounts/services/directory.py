"""Who exists, for the other apps: public faces by id, never a phone number."""

from collections.abc import Iterable

from accounts.domain import PublicUser
from accounts.stores.users import UserStore
from foundation.kernel.ids import UserId


class UserDirectory:
    def __init__(self, users: UserStore) -> None:
        self._users = users

    def public_faces(self, user_ids: Iterable[UserId]) -> dict[UserId, PublicUser]:
        """The public faces of those who exist; an id that is absent from the answer names no user.

        Absence is certain: it is confirmed by a strongly consistent read, so callers may refuse by it.
        """
        return {user_id: user.public for user_id, user in self._users.find_all(user_ids).items()}
