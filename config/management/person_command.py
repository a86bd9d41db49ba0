"""The base of the commands about one person. Exit code 1: there is no such person; 2: could not look."""

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

import orjson
from django.core.management.base import CommandError
from django.db import DatabaseError

from accounts.domain import User
from accounts.errors import UserNotFound
from config.wiring.staff import desk_of
from config.wiring.web import web
from staff.command import COULD_NOT_LOOK, StaffCommand
from staff.desk import Desk
from staff.services.audit_log import command_actor
from staff.services.export import describe_user
from staff.services.people import Order

NO_SUCH_PERSON = 1


class PersonCommand(StaffCommand):
    """`act` changes something, or looks."""

    question = ""
    """What to ask on a terminal before a change."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("person", metavar="PERSON", help="an id, or a phone number such as +14155550123")

    def handle(self, *args: Any, **options: Any) -> None:
        desk = desk_of(web())
        try:
            user = desk.people.get(options["person"])
            if self.question:
                self.confirm(options, self.question.format(name=user.display_name, user_id=user.user_id))
            self.act(desk, user, options)
        except UserNotFound as error:
            raise CommandError(error.detail, returncode=NO_SUCH_PERSON) from error
        except DatabaseError as error:
            text = f"The audit log cannot be written ({error}): nothing was changed. Run `manage.py migrate`."
            raise CommandError(text, returncode=COULD_NOT_LOOK) from error

    def act(self, desk: Desk, user: User, options: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def order(self, options: Mapping[str, Any]) -> Order:
        """Raises `CommandError` without a reason."""
        if not (options["reason"] or "").strip():
            raise CommandError("Say why with --reason: it goes into the audit log.", returncode=COULD_NOT_LOOK)
        return Order(by=command_actor(options["actor"]), reason=options["reason"])

    def report(self, options: Mapping[str, Any], sentence: str, user: User, **more: Any) -> None:
        """Print what was done, or the person as JSON."""
        if options["json"]:
            body = {**describe_user(user), **more}
            self.stdout.write(orjson.dumps(body, option=orjson.OPT_INDENT_2).decode())
        else:
            self.stdout.write(sentence)
