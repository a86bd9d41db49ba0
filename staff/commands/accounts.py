"""Django's commands for staff accounts, which enter what they do in the audit log."""

from typing import Any, ClassVar

from django.contrib.auth.management.commands import changepassword, createsuperuser
from django.contrib.auth.models import User
from django.core.management.base import CommandParser
from django.db.models.signals import pre_save

from staff.commands.base import OperatorCommand
from staff.services.audit_log import Act, command_actor, record


class AccountCommand(OperatorCommand):
    """A command that stores one account, whose name Django may ask for. Recorded before it is stored."""

    action: ClassVar[str]

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--as", dest="actor", metavar="NAME", help="who to name in the audit log (default: os:USER)"
        )
        parser.add_argument("--reason", help="why, for the audit log")

    def handle(self, *args: Any, **options: Any) -> str | None:
        actor, reason = command_actor(options["actor"]), options["reason"] or "by command"

        def record_account(sender: object, instance: User, **_: Any) -> None:
            record(Act(actor, self.action, instance.get_username(), reason))

        pre_save.connect(record_account, sender=User)
        try:
            return super().handle(*args, **options)
        finally:
            pre_save.disconnect(record_account, sender=User)


class CreateSuperuserCommand(AccountCommand, createsuperuser.Command):
    action = "create_account"


class ChangePasswordCommand(AccountCommand, changepassword.Command):
    action = "change_password"
