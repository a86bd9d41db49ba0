"""Sessions: one per login of a device, extended by rotating refresh tokens, ended by revocation.

DynamoDB is the source of truth. A revocation is followed by a best-effort notice to all processes. If the notice is
lost, REST refuses the tokens a few seconds later, and the gateway closes the sockets at its next check, within 30 s.
"""

import hmac
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from accounts.domain import Session
from accounts.errors import AccountSuspended, SessionNotFound, SessionRevoked
from accounts.services.metrics import REVOCATION_NOTICES
from accounts.services.refresh_tokens import RefreshToken, RefreshTokens
from accounts.services.tokens import AccessTokens
from accounts.services.verification import TokenVerifier
from accounts.stores.sessions import Rotation, SessionStore
from foundation.kernel.caller import Caller
from foundation.kernel.clock import Clock
from foundation.kernel.ids import IdFactory, SessionId, UserId
from foundation.kernel.retry import RetryPolicy
from foundation.stores.errors import StoreUnavailable, TransactionConflict

log = logging.getLogger(__name__)

SESSION_LIFETIME = timedelta(days=30)
REFRESH_GRACE = timedelta(seconds=60)


class RevocationNotices(Protocol):
    """Notifies every process that sessions have ended. Raises `StoreUnavailable`."""

    def publish_revocation(self, session_ids: Sequence[SessionId]) -> None: ...


@dataclass(frozen=True, slots=True)
class TokenPair:
    session_id: SessionId
    access_token: str
    refresh_token: str
    expires_in: int


@dataclass(frozen=True, slots=True)
class TokenMint:
    """Issues access and refresh tokens."""

    access: AccessTokens
    refresh: RefreshTokens


class Sessions:
    def __init__(
        self,
        *,
        store: SessionStore,
        mint: TokenMint,
        verifier: TokenVerifier,
        notices: RevocationNotices,
        ids: IdFactory,
        clock: Clock,
    ) -> None:
        self._store = store
        self._mint = mint
        self._verifier = verifier
        self._notices = notices
        self._ids = ids
        self._clock = clock

    def open(self, *, user_id: UserId, device_id: str) -> TokenPair:
        session_id, now = self._ids.session(), self._clock.now()
        token = self._mint.refresh.first(session_id)
        session = Session(
            session_id=session_id,
            user_id=user_id,
            device_id=device_id,
            refresh_token_hash=token.digest,
            created_at=now,
            expires_at=now + SESSION_LIFETIME,
        )
        self._store.create(session)
        return self._pair(session, token)

    def session_of(self, refresh_token: str) -> SessionId:
        """Whose token this is, without I/O. Raises `InvalidRefreshToken` unless this server issued it."""
        return self._mint.refresh.read(refresh_token).session_id

    def refresh(self, refresh_token: str) -> TokenPair:
        """Exchange a refresh token for its successor and a new access token.

        For a grace period, repeated requests with the same token get the same successor (ADR-010). Any older token may
        be stolen and ends the session. Raises `InvalidRefreshToken`, `SessionRevoked`, `AccountSuspended`.
        """
        token = self._mint.refresh.read(refresh_token)
        for _ in RetryPolicy().tries():
            session = self._store.confirm(token.session_id, now=self._clock.now())
            if session is None:
                raise SessionRevoked
            if self._store.is_user_suspended(session.user_id):
                raise AccountSuspended
            if not hmac.compare_digest(token.digest, session.refresh_token_hash):
                return self._pair(session, self._successor_in_grace(session, token))
            successor = self._rotate(session, token)
            if successor is not None:
                return self._pair(session, successor)
        raise TransactionConflict("Another request kept rotating this token")

    def _rotate(self, session: Session, token: RefreshToken) -> RefreshToken | None:
        """Rotate and return the successor, or None if another request rotated first."""
        now, salt = self._clock.now(), self._mint.refresh.salt()
        successor = self._mint.refresh.successor(token, salt=salt)
        rotation = Rotation(
            from_hash=token.digest,
            to_hash=successor.digest,
            salt=salt,
            rotated_at=now,
            expires_at=now + SESSION_LIFETIME,
        )
        return successor if self._store.rotate(session.session_id, rotation) else None

    def _successor_in_grace(self, session: Session, token: RefreshToken) -> RefreshToken:
        """The successor of the previous token. For an older token, revoke the session and raise `SessionRevoked`."""
        is_previous = hmac.compare_digest(token.digest, session.previous_token_hash or "")
        in_grace = session.rotated_at is not None and self._clock.now() - session.rotated_at <= REFRESH_GRACE
        if is_previous and in_grace and session.rotation_salt is not None:
            successor = self._mint.refresh.find_successor(
                token, salt=session.rotation_salt, digest=session.refresh_token_hash
            )
            if successor is not None:
                return successor
        log.warning("an old refresh token of session %s was used again: session revoked", session.session_id)
        self._store.revoke(session.session_id, user_id=session.user_id)
        self._notify([session.session_id])
        raise SessionRevoked

    def list_sessions(
        self, user_id: UserId, *, limit: int, after: SessionId | None = None
    ) -> tuple[list[Session], SessionId | None]:
        """A page of a user's active sessions, and the id after which the next page starts."""
        return self._store.list_sessions(user_id, now=self._clock.now(), limit=limit, after=after)

    def revoke(self, user_id: UserId, session_id: SessionId) -> None:
        """End one of a user's sessions. Raises `SessionNotFound`, also for sessions of other users."""
        if not self._store.revoke(session_id, user_id=user_id):
            raise SessionNotFound
        self._notify([session_id])

    def revoke_all(self, user_id: UserId, *, but: SessionId | None = None) -> int:
        """End all of a user's sessions, except one if it is named. Return how many."""
        ended = [session_id for session_id in self._store.list_ids(user_id) if session_id != but]
        if ended:
            self._store.revoke_all(ended)
            self._notify(ended)
        return len(ended)

    def log_out(self, caller: Caller) -> None:
        """End the calling session. Idempotent."""
        self._store.revoke(caller.session_id, user_id=caller.user_id)
        self._notify([caller.session_id])

    def _notify(self, session_ids: Sequence[SessionId]) -> None:
        self._verifier.mark_ended(session_ids)
        try:
            self._notices.publish_revocation(session_ids)
        except StoreUnavailable as error:
            REVOCATION_NOTICES.labels("failed").inc()
            log.warning("%d sessions were revoked without a notice: %s", len(session_ids), error)
        else:
            REVOCATION_NOTICES.labels("published").inc()

    def _pair(self, session: Session, token: RefreshToken) -> TokenPair:
        return TokenPair(
            session_id=session.session_id,
            access_token=self._mint.access.issue(user_id=session.user_id, session_id=session.session_id),
            refresh_token=token.text,
            expires_in=self._mint.access.lifetime_seconds,
        )
