from collections.abc import Mapping
from typing import Any

from accounts.domain import User
from config.management.person_command import PersonCommand
from staff.desk import Desk


class Command(PersonCommand):
    """Thin: `staff.services.people` does the work."""

    help = "Log a person out everywhere: sessions end and their sockets close."
    question = "Revoke all sessions of {name} ({user_id})?"

    def act(self, desk: Desk, user: User, options: Mapping[str, Any]) -> None:
        count = desk.people.revoke_sessions(user.user_id, self.order(options))
        self.report(options, f"{count} sessions of {user.user_id} are revoked.", user, revoked=count)
