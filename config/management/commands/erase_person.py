from collections.abc import Mapping
from typing import Any

from accounts.domain import User
from config.management.person_command import PersonCommand
from staff.desk import Desk


class Command(PersonCommand):
    """Thin: `staff.services.people` does the work."""

    help = "Erase a person: account, sessions, phone number, memberships and marks go, messages keep their places."
    question = "Erase {name} ({user_id}) for ever?"

    def act(self, desk: Desk, user: User, options: Mapping[str, Any]) -> None:
        desk.people.erase(user.user_id, self.order(options))
        self.report(options, f"{user.user_id} is erased.", user, erased=True)
