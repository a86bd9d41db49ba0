from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from staff.commands.base import OperatorCommand
from staff.services.audit_log import command_actor
from staff.services.second_factor import NoSuchAccount, enrol


class StaffTotpCommand(OperatorCommand):
    help = (
        "Print the address (otpauth://) that enrols a staff account's authenticator app. Makes a key if there is none."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", metavar="USER", help="the name of a staff account")
        parser.add_argument("--new", action="store_true", help="replace the key: the former device stops working")
        parser.add_argument(
            "--as", dest="actor", metavar="NAME", help="who to name in the audit log (default: os:USER)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.stdout.write(enrol(options["user"], by=command_actor(options["actor"]), anew=options["new"]))
        except NoSuchAccount as error:
            raise CommandError(error.detail, returncode=1) from error
