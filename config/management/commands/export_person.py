from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accounts.domain import User
from config.management.person_command import PersonCommand
from staff.desk import Desk


class Command(PersonCommand):
    """Thin: `staff.services.export` does the work."""

    help = "Write everything of a person to a ZIP of JSON files: account, sessions, chats, marks and own messages."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--output", type=Path, metavar="FILE", help="where to (default: <user_id>.zip)")

    def act(self, desk: Desk, user: User, options: Mapping[str, Any]) -> None:
        order, path = self.order(options), options["output"] or Path(f"{user.user_id}.zip")
        with path.open("xb") as file:
            desk.people.export(user.user_id, order, file)
        self.report(options, f"{user.user_id} is exported to {path}.", user, file=str(path))
