"""Finds people and acts on them, for the pages and for the commands. Every act is in the audit log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from accounts.domain import User
from accounts.services.records import UserRecords
from accounts.services.sessions import Sessions
from accounts.services.suspension import Suspensions
from foundation.kernel.ids import SessionId, UserId
from staff.services.audit_log import Act, Actor, recorded
from staff.services.erasure import Erasure
from staff.services.export import PersonExport


@dataclass(frozen=True, slots=True)
class Order:
    """Who orders a change, and why."""

    by: Actor
    reason: str

    def act(self, action: str, target: str, details: Mapping[str, Any] | None = None) -> Act:
        return Act(self.by, action, target, self.reason, details or {})


class People:
    """Every change raises `UserNotFound`, and `Invalid` without a reason."""

    def __init__(
        self,
        *,
        records: UserRecords,
        sessions: Sessions,
        suspensions: Suspensions,
        export: PersonExport,
        erasure: Erasure,
    ) -> None:
        self._records = records
        self._sessions = sessions
        self._suspensions = suspensions
        self._export = export
        self._erasure = erasure
        self.find = records.find
        self.get = records.get
        self.list_sessions = export.list_sessions
        self.list_inbox = export.list_inbox

    def suspend(self, user_id: UserId, order: Order) -> User:
        """Nothing of this person is accepted until restored; open sockets close within a second."""
        user_id = self._existing(user_id)
        with recorded(order.act("suspend", user_id)):
            return self._suspensions.suspend(user_id)

    def restore(self, user_id: UserId, order: Order) -> User:
        user_id = self._existing(user_id)
        with recorded(order.act("restore", user_id)):
            return self._suspensions.restore(user_id)

    def revoke_session(self, user_id: UserId, session_id: SessionId, order: Order) -> None:
        """Raises `SessionNotFound`."""
        user_id = self._existing(user_id)
        with recorded(order.act("revoke_session", user_id, {"session_id": session_id})):
            self._sessions.revoke(user_id, session_id)

    def revoke_sessions(self, user_id: UserId, order: Order) -> int:
        """End all sessions. Return how many there were."""
        user_id = self._existing(user_id)
        with recorded(order.act("revoke_sessions", user_id)):
            return self._sessions.revoke_all(user_id)

    def export(self, user_id: UserId, order: Order, file: BinaryIO) -> None:
        """Write everything of this person to a ZIP file."""
        user = self._records.get(user_id)
        with recorded(order.act("export", user.user_id)):
            self._export.write(user, file)

    def erase(self, user_id: UserId, order: Order) -> None:
        """Delete the account. Repeatable after a failure, until it is done."""
        user = self._records.get(user_id)
        with recorded(order.act("erase", user.user_id)):
            self._erasure.erase(user)

    def _existing(self, user_id: UserId) -> UserId:
        """The id of whoever has this id or number. Nothing is recorded about people who do not exist."""
        return self._records.get(user_id).user_id
