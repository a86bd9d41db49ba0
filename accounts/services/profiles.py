"""Users as they see themselves, and as others may see them."""

from accounts import display_names, phone_numbers
from accounts.domain import PublicUser, User
from accounts.errors import UserNotFound
from accounts.stores.users import UserStore
from foundation.kernel.caller import Caller
from foundation.kernel.clock import Clock
from foundation.kernel.ids import UserId
from foundation.stores.redis.limits import Limit, RateLimiter

LOOKUPS = Limit("lookup", rate=60 / 3600, burst=60)


class Profiles:
    def __init__(self, users: UserStore, *, limiter: RateLimiter, clock: Clock) -> None:
        self._users = users
        self._limiter = limiter
        self._clock = clock

    def get_own(self, caller: Caller) -> User:
        """Raises `UserNotFound`."""
        return _found(self._users.find(caller.user_id))

    def rename(self, caller: Caller, display_name: str) -> User:
        """Raises `Invalid`, `UserNotFound`."""
        name = display_names.checked(display_name)
        return _found(self._users.rename(caller.user_id, name, now=self._clock.now()))

    def get_public(self, user_id: UserId) -> PublicUser:
        """Raises `UserNotFound`, also for what has not the form of a user's id."""
        return _found(self._users.find(user_id)).public

    def look_up(self, caller: Caller, phone_number: str) -> PublicUser:
        """Who has this phone number. Raises `UserNotFound`, `RateLimited`.

        Every lookup counts, found or not, so that nobody learns who is here by trying numbers. Without Redis there is
        no lookup: this limit keeps a secret, so it fails closed.
        """
        number = phone_numbers.canonical(phone_number)
        self._limiter.take(LOOKUPS, caller.user_id).require()
        return _found(self._users.find_by_phone(number)).public


def _found(user: User | None) -> User:
    if user is None:
        raise UserNotFound
    return user
