"""Finds or creates the user of a verified phone number."""

from accounts import display_names
from accounts.domain import User
from accounts.errors import PhoneNumberTaken
from accounts.stores.users import UserStore
from foundation.kernel.clock import Clock
from foundation.kernel.ids import IdFactory, UserId
from foundation.stores.errors import StoreUnavailable, TransactionConflict


class Registration:
    """Concurrent first logins of one number, in any number of processes, create one user."""

    def __init__(self, users: UserStore, *, ids: IdFactory, clock: Clock) -> None:
        self._users = users
        self._ids = ids
        self._clock = clock

    def find_or_create(self, phone_number: str, *, display_name: str | None) -> tuple[User, bool]:
        """Return the number's user, and whether this call created it. `display_name` applies to new users only.

        Reads the claim, not the index, because the index is eventually consistent, and the user strongly consistent,
        because the caller has to know whether it is suspended.
        """
        owner = self._users.find_owner(phone_number)
        if owner is not None:
            return self._existing(owner), False
        user = self._new(phone_number, display_name)
        try:
            self._users.create(user)
        except (PhoneNumberTaken, TransactionConflict):
            owner = self._users.find_owner(phone_number)
            if owner is None:
                raise
            return self._existing(owner), owner == user.user_id
        return user, True

    def _new(self, phone_number: str, display_name: str | None) -> User:
        user_id, now = self._ids.user(), self._clock.now()
        return User(
            user_id=user_id,
            phone_number=phone_number,
            phone_verified=True,
            display_name=display_name or display_names.default_for(user_id),
            created_at=now,
            updated_at=now,
        )

    def _existing(self, user_id: UserId) -> User:
        user = self._users.find_now(user_id)
        if user is None:
            raise StoreUnavailable("The phone number is claimed and its user is not there")
        return user
