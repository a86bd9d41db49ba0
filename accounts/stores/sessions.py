"""The table `sessions`: one item per login of a device.

Revocation deletes the item. Validation reads the session together with its user, who may be suspended: eventually
consistent, and a miss is repeated with a strongly consistent read, so that a new session is never refused. Items past
`expires_at` count as absent, because DynamoDB may take two days to delete them.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from accounts.domain import Session, SessionState
from accounts.models import SessionModel, UserModel
from foundation.kernel.clock import from_iso, to_iso
from foundation.kernel.ids import SessionId, UserId, is_session_id
from foundation.stores.dynamodb import AccessPattern, Consistency, Database, Key, Operation
from foundation.stores.errors import ConditionFailed

VALIDATE = AccessPattern("Validate session", SessionModel, Operation.BATCH_GET, "session_id", Consistency.EVENTUAL)
CHECK_USER = AccessPattern(
    "Check that the user is not suspended", UserModel, Operation.BATCH_GET, "user_id", Consistency.EVENTUAL
)
CONFIRM = AccessPattern("Confirm session", SessionModel, Operation.GET, "session_id", Consistency.STRONG)
CONFIRM_MANY = AccessPattern(
    "Confirm sessions", SessionModel, Operation.BATCH_GET, key="session_id", consistency=Consistency.STRONG
)
CONFIRM_USERS = AccessPattern(
    "Confirm that users are not suspended", UserModel, Operation.BATCH_GET, "user_id", Consistency.STRONG
)
CONFIRM_USER = AccessPattern(
    "Confirm that the user is not suspended", UserModel, Operation.GET, "user_id", Consistency.STRONG
)
LIST = AccessPattern(
    "List user sessions",
    SessionModel,
    Operation.QUERY,
    "user_id",
    Consistency.EVENTUAL,
    index=SessionModel.user_sessions_index,
)
CREATE = AccessPattern(
    "Create session", SessionModel, Operation.PUT, "session_id", condition="attribute_not_exists(session_id)"
)
ROTATE = AccessPattern(
    "Rotate refresh token",
    SessionModel,
    Operation.UPDATE,
    "session_id",
    condition="refresh_token_hash = :presented",
)
REVOKE = AccessPattern("Revoke session", SessionModel, Operation.DELETE, "session_id", condition="user_id = :caller")
REVOKE_ALL = AccessPattern("Revoke all sessions", SessionModel, Operation.BATCH_DELETE, "session_id")


@dataclass(frozen=True, slots=True)
class Rotation:
    """Replaces the hash of a refresh token. `from_hash` must be the stored one."""

    from_hash: str
    to_hash: str
    salt: str
    rotated_at: datetime
    expires_at: datetime


class SessionStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_state(self, session_id: SessionId, user_id: UserId, *, now: datetime) -> SessionState:
        """May miss what was revoked or suspended just now; always finds a new session. On the service loop."""
        found = await self._database.on_loop.batch_get({VALIDATE: [(session_id,)], CHECK_USER: [(user_id,)]})
        item = found.of(VALIDATE).get((session_id,))
        if item is None:
            return (await self.confirm_states([(session_id, user_id)], now=now))[session_id]
        user = found.of(CHECK_USER).get((user_id,))
        return SessionState(_active(item, now), is_suspended=_is_suspended(user))

    async def confirm_states(
        self, pairs: Iterable[tuple[SessionId, UserId]], *, now: datetime
    ) -> dict[SessionId, SessionState]:
        """The state of each session and its user, by a strongly consistent read. On the service loop."""
        users = dict(pairs)
        session_keys: list[Key] = [(session_id,) for session_id in users]
        user_keys: list[Key] = [(user_id,) for user_id in users.values()]
        found = await self._database.on_loop.batch_get({CONFIRM_MANY: session_keys, CONFIRM_USERS: user_keys})
        items, people = found.of(CONFIRM_MANY), found.of(CONFIRM_USERS)
        return {
            session_id: SessionState(
                _active(items[(session_id,)], now) if (session_id,) in items else None,
                is_suspended=_is_suspended(people.get((user_id,))),
            )
            for session_id, user_id in users.items()
        }

    def confirm(self, session_id: SessionId, *, now: datetime) -> Session | None:
        """The active session, by a strongly consistent read."""
        item = self._database.get(CONFIRM, session_id)
        return _active(item, now) if item is not None else None

    def is_user_suspended(self, user_id: UserId) -> bool:
        """By a strongly consistent read."""
        return _is_suspended(self._database.get(CONFIRM_USER, user_id))

    def list_sessions(
        self, user_id: UserId, *, now: datetime, limit: int, after: SessionId | None = None
    ) -> tuple[list[Session], SessionId | None]:
        """A page of active sessions, and the id after which the next page starts."""
        start = None if after is None else {"user_id": user_id, "session_id": after}
        page = self._database.query(LIST, user_id, limit=limit, after=start)
        active = [session for item in page.items if (session := _active(item, now)) is not None]
        return active, SessionId(page.items[-1].session_id) if page.more and page.items else None

    def list_ids(self, user_id: UserId) -> list[SessionId]:
        return [SessionId(item.session_id) for item in self._database.query_all(LIST, user_id)]

    def create(self, session: Session) -> None:
        """A new session. Its id is new too: only this request, whose answer was lost, can have written it before."""
        with suppress(ConditionFailed):
            self._database.put(CREATE, _item(session), SessionModel.session_id.does_not_exist())

    def rotate(self, session_id: SessionId, rotation: Rotation) -> bool:
        """Rotate the token. Return False if the stored hash is another one or the session has ended."""
        actions = [
            SessionModel.refresh_token_hash.set(rotation.to_hash),
            SessionModel.previous_token_hash.set(rotation.from_hash),
            SessionModel.rotation_salt.set(rotation.salt),
            SessionModel.rotated_at.set(to_iso(rotation.rotated_at)),
            SessionModel.expires_at.set(to_iso(rotation.expires_at)),
            SessionModel.ttl.set(int(rotation.expires_at.timestamp())),
        ]
        try:
            self._database.update(ROTATE, (session_id,), actions, SessionModel.refresh_token_hash == rotation.from_hash)
        except ConditionFailed:
            return False
        return True

    def revoke(self, session_id: SessionId, *, user_id: UserId) -> bool:
        """End this user's session. Return False if the user has no such session."""
        if not is_session_id(session_id):
            return False
        try:
            self._database.delete(REVOKE, (session_id,), SessionModel.user_id == user_id)
        except ConditionFailed:
            return False
        return True

    def revoke_all(self, session_ids: Sequence[SessionId]) -> None:
        """End sessions of one user. Not atomic; safe to retry."""
        self._database.batch_delete(REVOKE_ALL, [(session_id,) for session_id in session_ids])


def _is_suspended(user: UserModel | None) -> bool:
    return user is not None and user.suspended_at is not None


def _item(session: Session) -> SessionModel:
    return SessionModel(
        session_id=session.session_id,
        user_id=session.user_id,
        device_id=session.device_id,
        refresh_token_hash=session.refresh_token_hash,
        created_at=to_iso(session.created_at),
        expires_at=to_iso(session.expires_at),
        ttl=int(session.expires_at.timestamp()),
    )


def _active(item: SessionModel, now: datetime) -> Session | None:
    session = Session(
        session_id=SessionId(item.session_id),
        user_id=UserId(item.user_id),
        device_id=item.device_id,
        refresh_token_hash=item.refresh_token_hash,
        previous_token_hash=item.previous_token_hash,
        rotation_salt=item.rotation_salt,
        rotated_at=from_iso(item.rotated_at) if item.rotated_at else None,
        created_at=from_iso(item.created_at),
        expires_at=from_iso(item.expires_at),
    )
    return session if session.expires_at > now else None
