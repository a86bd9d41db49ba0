"""Reading and changing profiles, and lookup by phone number."""

from accounts import display_names, phone_numbers
from accounts.domain import PublicUser, User
from accounts.errors import UserNotFound
from accounts.stores.users import UserStore
from foundation.kernel.caller import Caller
from foundation.kernel.clock import Clock
from foundation.kernel.ids import UserId
from foundation.stores.redis.limits import Limit, RateLimiter

LOOKUP_LIMIT = Limit("lookup", rate=60 / 3600, burst=60)


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
        name = display_names.normalize(display_name)
        return _found(self._users.rename(caller.user_id, name, now=self._clock.now()))

    def get_public(self, user_id: UserId) -> PublicUser:
        """Raises `UserNotFound`, also for a malformed id."""
        return _found(self._users.find(user_id)).public

    def look_up(self, caller: Caller, phone_number: str) -> PublicUser:
        """Find a user by phone number. Raises `UserNotFound`, `RateLimited`.

        Every lookup counts, to prevent enumeration of numbers. The limit protects privacy, so it fails closed.
        """
        number = phone_numbers.normalize(phone_number)
        self._limiter.take(LOOKUP_LIMIT, caller.user_id).require()
        return _found(self._users.find_by_phone(number)).public


def _found(user: User | None) -> User:
    if user is None:
        raise UserNotFound
    return user
