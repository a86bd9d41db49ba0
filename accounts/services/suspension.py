"""Suspension: a suspended user cannot log in, refresh, connect or send until restored. Sessions stay as they are.

The user's item in DynamoDB is the truth, read strongly consistent at login, refresh and handshake. A best-effort notice
closes the sockets in all processes at once. If it is lost, REST refuses within the few seconds of its cache, and the
gateway closes the sockets at its next check, within 30 s.
"""

import logging
from typing import Protocol

from accounts.domain import User
from accounts.errors import UserNotFound
from accounts.services.metrics import SUSPENSION_NOTICES
from accounts.services.verification import TokenVerifier
from accounts.stores.users import UserStore
from foundation.kernel.clock import Clock
from foundation.kernel.ids import UserId
from foundation.stores.errors import StoreUnavailable

log = logging.getLogger(__name__)


class SuspensionNotices(Protocol):
    """Notifies every process that a user was suspended or restored. Raises `StoreUnavailable`."""

    def publish_suspension(self, user_id: UserId, *, is_suspended: bool) -> None: ...


class Suspensions:
    def __init__(self, users: UserStore, *, verifier: TokenVerifier, notices: SuspensionNotices, clock: Clock) -> None:
        self._users = users
        self._verifier = verifier
        self._notices = notices
        self._clock = clock

    def suspend(self, user_id: UserId) -> User:
        """Close the user's sockets and refuse its tokens and logins. Repeatable. Raises `UserNotFound`."""
        return self._changed(self._users.suspend(user_id, now=self._clock.now()))

    def restore(self, user_id: UserId) -> User:
        """Accept the user's tokens and logins again. Repeatable. Raises `UserNotFound`."""
        return self._changed(self._users.restore(user_id))

    def _changed(self, user: User | None) -> User:
        if user is None:
            raise UserNotFound
        self._verifier.forget_users({user.user_id})
        try:
            self._notices.publish_suspension(user.user_id, is_suspended=user.suspended_at is not None)
        except StoreUnavailable as error:
            SUSPENSION_NOTICES.labels("failed").inc()
            log.warning("%s was suspended or restored without a notice: %s", user.user_id, error)
        else:
            SUSPENSION_NOTICES.labels("published").inc()
        return user
