from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from config.wiring.demo import demo_of
from config.wiring.web import web
from foundation.kernel.errors import ParleyError


class Command(BaseCommand):
    """Calls `DemoSeeder.seed` and prints the users."""

    help = (
        "Make users, chats and messages to look at, in the run of `manage.py dev` on this data directory. Repeatable."
    )
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.EMBEDDED:
            raise CommandError("The demo is for runs of `manage.py dev` only.")
        try:
            users = demo_of(web()).seed()
        except ParleyError as error:
            raise CommandError(f"{error.detail} Is `manage.py dev` running on {settings.DATA_DIR}?") from error
        for name, user in users.items():
            self.stdout.write(f"{name:<14} {user.phone_number}  {user.user_id}")
        self.stdout.write("Choose one of them with “Try the demo” on the login page.")
