from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from demo.data import SUSPENDED
from demo.seeder import DemoSeeder
from foundation.kernel.errors import ParleyError


class DemoCommand(BaseCommand):
    seeder: Callable[[], DemoSeeder]
    help = (
        "Make users, chats and messages to look at, in the run of `manage.py dev` on this data directory. Repeatable."
    )
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.EMBEDDED:
            raise CommandError("The demo is for runs of `manage.py dev` only.", returncode=2)
        try:
            users = self.seeder().seed()
        except ParleyError as error:
            advice = f"Is `manage.py dev` running on {settings.DATA_DIR}?"
            raise CommandError(f"{error.detail} {advice}", returncode=2) from error
        for name, user in users.items():
            self.stdout.write(f"{name:<14} {user.phone_number}  {user.user_id}")
        name, number = SUSPENDED
        self.stdout.write(f"{name:<14} {number}  suspended: for staff to look at, in /admin/")
        self.stdout.write("Choose one of the others with “Try the demo” on the login page.")
