from collections.abc import Mapping
from typing import Any

from accounts.domain import User
from config.management.person_command import PersonCommand
from staff.desk import Desk


class Command(PersonCommand):
    """Thin: `staff.services.people` does the work."""

    help = "Suspend a person: sockets close within a second, logins, tokens and messages are refused until restored."
    question = "Suspend {name} ({user_id})?"

    def act(self, desk: Desk, user: User, options: Mapping[str, Any]) -> None:
        suspended = desk.people.suspend(user.user_id, self.order(options))
        self.report(options, f"{user.user_id} is suspended.", suspended)
