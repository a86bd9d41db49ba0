"""Reading and changing profiles, and lookup by phone number."""

import logging
from dataclasses import replace
from typing import Protocol

from accounts import display_names, phone_numbers
from accounts.domain import ProfileChange, PublicUser, User
from accounts.errors import UserNotFound
from accounts.stores.users import UserStore
from foundation.kernel.caller import Caller
from foundation.kernel.clock import Clock
from foundation.kernel.ids import UserId
from foundation.stores.errors import StoreUnavailable
from foundation.stores.redis.limits import Limit, RateLimiter

log = logging.getLogger(__name__)

LOOKUP_LIMIT = Limit("lookup", rate=60 / 3600, burst=60)


class PrivacyNotices(Protocol):
    """Notifies every process that a user's privacy settings changed. Raises `StoreUnavailable`."""

    def publish_privacy(self, user_id: UserId) -> None: ...


class Profiles:
    def __init__(self, users: UserStore, *, limiter: RateLimiter, notices: PrivacyNotices, clock: Clock) -> None:
        self._users = users
        self._notices = notices
        self._limiter = limiter
        self._clock = clock

    async def get_own(self, caller: Caller) -> User:
        """Raises `UserNotFound`."""
        return _found(await self._users.find_on_loop(caller.user_id))

    def change(self, caller: Caller, change: ProfileChange) -> User:
        """Raises `Invalid`, `UserNotFound`. Other processes learn of new privacy settings at once if Redis is there."""
        if change.display_name is not None:
            change = replace(change, display_name=display_names.normalize(change.display_name))
        user = _found(self._users.change(caller.user_id, change, now=self._clock.now()))
        if change.read_receipts is not None or change.show_presence is not None:
            self._publish(caller.user_id)
        return user

    def _publish(self, user_id: UserId) -> None:
        try:
            self._notices.publish_privacy(user_id)
        except StoreUnavailable as error:
            log.warning("privacy settings were changed without a notice: %s", error)

    async def get_public(self, user_id: UserId) -> PublicUser:
        """Raises `UserNotFound`, also for a malformed id."""
        return _found(await self._users.find_on_loop(user_id)).public

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
