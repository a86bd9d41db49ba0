"""Authentication by access token: the token must be valid, its session active and its user not suspended.

Fails closed: without DynamoDB, a request whose session is not cached is refused. REST caches a session for a few
seconds to save reads. A notice of a revocation, suspension or restoration ends the cached check at once.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Lock

from accounts.domain import SessionState
from accounts.errors import AccountSuspended, SessionRevoked
from accounts.services.session_states import SessionStateReader
from accounts.services.tokens import AccessTokens
from accounts.stores.sessions import SessionStore
from foundation.kernel.caller import Caller
from foundation.kernel.clock import Clock
from foundation.kernel.errors import Unauthenticated
from foundation.kernel.ids import SessionId, UserId

CACHE_TTL = timedelta(seconds=3)
CACHE_CAPACITY = 20_000


@dataclass(frozen=True, slots=True)
class SessionCheck:
    """The state of a session and its user when they were read. `user_id` is None if the session has ended."""

    user_id: UserId | None
    expires_at: datetime | None
    checked_at: datetime
    device_id: str = ""
    is_suspended: bool = False

    def admits(self, caller: Caller, now: datetime) -> bool:
        return self.user_id == caller.user_id and self.expires_at is not None and self.expires_at > now


class SessionCache:
    """Caches session checks up to a TTL and a capacity. Sessions never restart, so an ended one is not overwritten."""

    def __init__(self, *, capacity: int = CACHE_CAPACITY, ttl: timedelta = CACHE_TTL) -> None:
        self._capacity = capacity
        self._ttl = ttl
        self._checks: OrderedDict[SessionId, SessionCheck] = OrderedDict()
        self._lock = Lock()

    def find(self, session_id: SessionId, now: datetime) -> SessionCheck | None:
        with self._lock:
            check = self._checks.get(session_id)
        return check if check is not None and self._is_fresh(check, now) else None

    def remember(self, session_id: SessionId, check: SessionCheck) -> SessionCheck:
        """Cache the check and return the valid one: if the session ended during a slow read, the cached end wins."""
        with self._lock:
            known = self._checks.pop(session_id, None)
            if known is not None and known.user_id is None and check.checked_at - known.checked_at < self._ttl:
                check = known
            self._checks[session_id] = check
            if len(self._checks) > self._capacity:
                self._checks.popitem(last=False)
        return check

    def forget_users(self, user_ids: Collection[UserId]) -> None:
        """Let the next request of each of these users read again."""
        with self._lock:
            known = [session_id for session_id, check in self._checks.items() if check.user_id in user_ids]
            for session_id in known:
                del self._checks[session_id]

    def _is_fresh(self, check: SessionCheck, now: datetime) -> bool:
        """A check from the future, after the clock was set back, is stale."""
        return timedelta(0) <= now - check.checked_at < self._ttl


class TokenVerifier:
    def __init__(
        self,
        *,
        tokens: AccessTokens,
        sessions: SessionStore,
        clock: Clock,
        cache: SessionCache | None = None,
    ) -> None:
        self._tokens = tokens
        self._sessions = sessions
        self._clock = clock
        self._cache = cache or SessionCache()
        self._states = SessionStateReader(sessions, clock=clock)

    def identify(self, access_token: str) -> UserId | None:
        """The user that a valid token names, whether or not its session is active. Reads no store."""
        try:
            return self._tokens.read(access_token).user_id
        except Unauthenticated:
            return None

    async def verify(self, access_token: str) -> Caller:
        """Authenticate a request.

        Raises `InvalidToken`, `TokenExpired`, `SessionRevoked`, `AccountSuspended`, `StoreUnavailable`.
        """
        caller, now = self._tokens.read(access_token), self._clock.now()
        check = self._cache.find(caller.session_id, now)
        if check is None:
            state = await self._sessions.find_state(caller.session_id, caller.user_id, now=now)
            check = self._cache.remember(caller.session_id, _check(state, now))
        return _require_active(caller, check, now)

    async def verify_now(self, access_token: str) -> Caller:
        """Authenticate a WebSocket: like `verify`, with a strongly consistent read instead of the cache."""
        caller, now = self._tokens.read(access_token), self._clock.now()
        check = _check(await self._states.read(caller.session_id, caller.user_id), now)
        return _require_active(caller, self._cache.remember(caller.session_id, check), now)

    async def ended_among(self, sessions: Mapping[SessionId, UserId]) -> set[SessionId]:
        """The sessions that have ended or whose users are suspended, by a strongly consistent read.

        Finds those whose notice was lost.
        """
        if not sessions:
            return set()
        states = await self._sessions.confirm_states(sessions.items(), now=self._clock.now())
        ended = {session_id for session_id, state in states.items() if state.session is None}
        self.mark_ended(ended)
        return ended | {session_id for session_id, state in states.items() if state.is_suspended}

    def mark_ended(self, session_ids: Iterable[SessionId]) -> None:
        """Refuse the tokens of these sessions from now on."""
        ended = SessionCheck(user_id=None, expires_at=None, checked_at=self._clock.now())
        for session_id in session_ids:
            self._cache.remember(session_id, ended)

    def forget_users(self, user_ids: Collection[UserId]) -> None:
        """Read again whether these users are suspended, at their next requests."""
        self._cache.forget_users(user_ids)


def _check(state: SessionState, now: datetime) -> SessionCheck:
    session = state.session
    if session is None:
        return SessionCheck(user_id=None, expires_at=None, checked_at=now)
    return SessionCheck(
        user_id=session.user_id,
        expires_at=session.expires_at,
        checked_at=now,
        device_id=session.device_id,
        is_suspended=state.is_suspended,
    )


def _require_active(caller: Caller, check: SessionCheck, now: datetime) -> Caller:
    if not check.admits(caller, now):
        raise SessionRevoked
    if check.is_suspended:
        raise AccountSuspended
    return replace(caller, device_id=check.device_id)
