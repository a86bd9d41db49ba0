"""Turning an access token into a caller: the token must be good and its session alive.

Deny by default: a session that cannot be checked is not let in. REST remembers a check for a few seconds, so that a
busy client costs one read every few seconds; a revocation notice overrules what is remembered at once.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Lock

from accounts.domain import Session
from accounts.errors import SessionRevoked
from accounts.services.tokens import AccessTokens
from accounts.stores.sessions import SessionStore
from foundation.kernel.caller import Caller
from foundation.kernel.clock import Clock
from foundation.kernel.ids import SessionId, UserId

REMEMBERED_FOR = timedelta(seconds=3)
REMEMBERED_SESSIONS = 20_000


@dataclass(frozen=True, slots=True)
class Standing:
    """What a check found: whose session it is and until when, or (`user_id` None) that there is none."""

    user_id: UserId | None
    expires_at: datetime | None
    checked_at: datetime
    device_id: str = ""

    def admits(self, caller: Caller, now: datetime) -> bool:
        return self.user_id == caller.user_id and self.expires_at is not None and self.expires_at > now


class RememberedSessions:
    """The last checks, bounded in time and number. That a session has ended is never overwritten: none comes back."""

    def __init__(self, *, capacity: int = REMEMBERED_SESSIONS, lasting: timedelta = REMEMBERED_FOR) -> None:
        self._capacity = capacity
        self._lasting = lasting
        self._standings: OrderedDict[SessionId, Standing] = OrderedDict()
        self._lock = Lock()

    def find(self, session_id: SessionId, now: datetime) -> Standing | None:
        with self._lock:
            standing = self._standings.get(session_id)
        return standing if standing is not None and self._is_fresh(standing, now) else None

    def remember(self, session_id: SessionId, standing: Standing) -> Standing:
        """Keep the standing and return the one that counts: an end learnt of during a slow check outweighs it."""
        with self._lock:
            known = self._standings.pop(session_id, None)
            if known is not None and known.user_id is None and standing.checked_at - known.checked_at < self._lasting:
                standing = known
            self._standings[session_id] = standing
            if len(self._standings) > self._capacity:
                self._standings.popitem(last=False)
        return standing

    def _is_fresh(self, standing: Standing, now: datetime) -> bool:
        """A clock that was set back makes a check old rather than lasting."""
        return timedelta(0) <= now - standing.checked_at < self._lasting


class TokenVerifier:
    def __init__(
        self,
        *,
        tokens: AccessTokens,
        sessions: SessionStore,
        clock: Clock,
        remembered: RememberedSessions | None = None,
    ) -> None:
        self._tokens = tokens
        self._sessions = sessions
        self._clock = clock
        self._remembered = remembered or RememberedSessions()

    def verify(self, access_token: str) -> Caller:
        """For requests. Raises `InvalidToken`, `TokenExpired`, `SessionRevoked`, `StoreUnavailable`."""
        caller, now = self._tokens.read(access_token), self._clock.now()
        standing = self._remembered.find(caller.session_id, now)
        if standing is None:
            session = self._sessions.find(caller.session_id, now=now)
            standing = self._remembered.remember(caller.session_id, _standing(session, now))
        return _admitted(caller, standing, now)

    def verify_now(self, access_token: str) -> Caller:
        """For what lasts, such as a WebSocket: asks DynamoDB strongly, whatever is remembered."""
        caller, now = self._tokens.read(access_token), self._clock.now()
        standing = _standing(self._sessions.confirm(caller.session_id, now=now), now)
        return _admitted(caller, self._remembered.remember(caller.session_id, standing), now)

    def ended_among(self, session_ids: Iterable[SessionId]) -> set[SessionId]:
        """Those of these sessions that have ended, asked strongly: finds what a lost notice did not tell."""
        asked = set(session_ids)
        ended = asked - self._sessions.living_among(asked, now=self._clock.now()) if asked else set()
        self.forget(ended)
        return ended

    def forget(self, session_ids: Iterable[SessionId]) -> None:
        """These sessions have ended: refuse their tokens from now on."""
        ended = Standing(user_id=None, expires_at=None, checked_at=self._clock.now())
        for session_id in session_ids:
            self._remembered.remember(session_id, ended)


def _standing(session: Session | None, now: datetime) -> Standing:
    if session is None:
        return Standing(user_id=None, expires_at=None, checked_at=now)
    return Standing(user_id=session.user_id, expires_at=session.expires_at, checked_at=now, device_id=session.device_id)


def _admitted(caller: Caller, standing: Standing, now: datetime) -> Caller:
    if not standing.admits(caller, now):
        raise SessionRevoked
    return replace(caller, device_id=standing.device_id)
