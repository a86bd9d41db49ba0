"""Sessions: one per login of a device, kept alive by rotating refresh tokens, ended by being revoked.

DynamoDB is the truth about a session. A notice to sockets and to other processes' memories follows a revocation and is
never its condition: when it is lost, REST refuses the tokens a few seconds later, and sockets are closed by the
gateway's next look at DynamoDB, within half a minute.
"""

import hmac
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from accounts.domain import Session
from accounts.errors import SessionNotFound, SessionRevoked
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

LIFETIME = timedelta(days=30)
GRACE = timedelta(seconds=60)


class RevocationNotices(Protocol):
    """Tells every process that sessions have ended. Raises `StoreUnavailable` where it cannot."""

    def publish(self, session_ids: Sequence[SessionId]) -> None: ...


@dataclass(frozen=True, slots=True)
class TokenPair:
    session_id: SessionId
    access_token: str
    refresh_token: str
    expires_in: int


@dataclass(frozen=True, slots=True)
class TokenMint:
    """Everything that makes tokens."""

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
            expires_at=now + LIFETIME,
        )
        self._store.create(session)
        return self._pair(session, token)

    def refresh(self, refresh_token: str) -> TokenPair:
        """Exchange a refresh token for its successor and a new access token.

        Requests that race with the same token, within a short grace, are all given the same successor (ADR-010).
        Any older token is a sign of theft and ends the session. Raises `InvalidRefreshToken`, `SessionRevoked`.
        """
        token = self._mint.refresh.read(refresh_token)
        for _ in RetryPolicy().tries():
            session = self._store.confirm(token.session_id, now=self._clock.now())
            if session is None:
                raise SessionRevoked
            if not _same(token.digest, session.refresh_token_hash):
                return self._pair(session, self._successor_in_grace(session, token))
            successor = self._rotated(session, token)
            if successor is not None:
                return self._pair(session, successor)
        raise TransactionConflict("Another request kept rotating this token")

    def _rotated(self, session: Session, token: RefreshToken) -> RefreshToken | None:
        """The successor, or None when another request was faster."""
        now, salt = self._clock.now(), self._mint.refresh.salt()
        successor = self._mint.refresh.successor(token, salt=salt)
        rotation = Rotation(
            from_hash=token.digest,
            to_hash=successor.digest,
            salt=salt,
            rotated_at=now,
            expires_at=now + LIFETIME,
        )
        return successor if self._store.rotate(session.session_id, rotation) else None

    def _successor_in_grace(self, session: Session, token: RefreshToken) -> RefreshToken:
        """What the previous token was exchanged for. Ends the session when the token is older than that."""
        is_previous = session.previous_token_hash is not None and _same(token.digest, session.previous_token_hash)
        in_grace = session.rotated_at is not None and self._clock.now() - session.rotated_at <= GRACE
        if is_previous and in_grace and session.rotation_salt is not None:
            successor = self._mint.refresh.find_successor(
                token, salt=session.rotation_salt, digest=session.refresh_token_hash
            )
            if successor is not None:
                return successor
        log.warning("an old refresh token of session %s was used again: session revoked", session.session_id)
        self._store.revoke(session.session_id, user_id=session.user_id)
        self._announce([session.session_id])
        raise SessionRevoked

    def list_of(
        self, caller: Caller, *, limit: int, after: SessionId | None = None
    ) -> tuple[list[Session], SessionId | None]:
        """A page of the caller's living sessions, and where the next page begins."""
        return self._store.list_of(caller.user_id, now=self._clock.now(), limit=limit, after=after)

    def revoke(self, caller: Caller, session_id: SessionId) -> None:
        """End one of the caller's sessions. Raises `SessionNotFound`, also for other people's."""
        if not self._store.revoke(session_id, user_id=caller.user_id):
            raise SessionNotFound
        self._announce([session_id])

    def revoke_others(self, caller: Caller) -> None:
        """End all of the caller's sessions but the one that calls."""
        others = [session_id for session_id in self._store.ids_of(caller.user_id) if session_id != caller.session_id]
        if others:
            self._store.revoke_all(others)
            self._announce(others)

    def log_out(self, caller: Caller) -> None:
        """End the calling session. A second time changes nothing."""
        self._store.revoke(caller.session_id, user_id=caller.user_id)
        self._announce([caller.session_id])

    def _announce(self, session_ids: Sequence[SessionId]) -> None:
        self._verifier.forget(session_ids)
        try:
            self._notices.publish(session_ids)
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


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one, other)
