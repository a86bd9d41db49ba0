"""The commands about one person. Exit code 1: there is no such person; 2: could not look."""

import errno
import os
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson
from django.core.management.base import CommandError

from accounts.domain import User
from accounts.errors import UserNotFound
from foundation.commands.base import COULD_NOT_LOOK
from foundation.kernel.errors import Unavailable
from staff.assembly import StaffServices
from staff.commands.base import LookCommand, StaffCommand
from staff.services.audit_log import command_actor
from staff.services.export import describe_chat, describe_session, describe_user
from staff.services.people import Order, People

NO_SUCH_PERSON = 1


class PersonCommand(LookCommand):
    """`act` is given the person."""

    services: Callable[[], StaffServices]

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("person", metavar="PERSON", help="an id, or a phone number such as +14155550123")

    def handle(self, *args: Any, **options: Any) -> None:
        services = self.services()
        try:
            self.act(services, services.people.get(options["person"]), options)
        except UserNotFound as error:
            raise CommandError(error.detail, returncode=NO_SUCH_PERSON) from error

    def act(self, services: StaffServices, user: User, options: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def report(self, options: Mapping[str, Any], sentence: str, user: User, **more: Any) -> None:
        """Print what was done, or the person as JSON."""
        if options["json"]:
            body = {**describe_user(user), **more}
            self.stdout.write(orjson.dumps(body, option=orjson.OPT_INDENT_2).decode())
        else:
            self.stdout.write(sentence)


class ShowPersonCommand(PersonCommand):
    help = "Show a person: account, sessions, open connections (in JSON null while Redis is away), chats with marks."

    def act(self, services: StaffServices, user: User, options: Mapping[str, Any]) -> None:
        sessions = [describe_session(each) for each in services.people.list_sessions(user.user_id)]
        connections, problem = None, ""
        try:
            connections = [each.connection_id for each in services.gateways.connections_of(user.user_id)]
        except Unavailable as error:
            problem = error.detail
        chats = [describe_chat(each) for each in services.people.list_inbox(user.user_id)]
        state = "suspended" if user.suspended_at else "active"
        lines = [
            f"{user.display_name}  {user.phone_number}  {user.user_id}  {state}",
            *(f"session {each['session_id']}  {each['device_id']}  since {each['created_at']}" for each in sessions),
            *(f"connection {each}" for each in connections or ()),
            *([f"connections are not known: {problem}"] if problem else []),
            *(
                f"chat {each['chat_id']}  {each['name'] or 'direct'}  {each['role']}  latest {each['last_sequence']}, "
                f"received up to {each['last_acked_sequence']}, read up to {each['last_read_sequence']}, "
                f"{each['unread_count']} unread"
                for each in chats
            ),
        ]
        self.report(options, "\n".join(lines), user, sessions=sessions, connections=connections, chats=chats)


class OrderedCommand(PersonCommand, StaffCommand):
    """A command that needs a reason."""

    def order(self, options: Mapping[str, Any]) -> Order:
        """Raises `CommandError` without a reason, which a terminal is asked for."""
        reason = self.reason(options)
        if not reason.strip():
            raise CommandError("Say why with --reason: it goes into the audit log.", returncode=COULD_NOT_LOOK)
        return Order(by=command_actor(options["actor"]), reason=reason)


class ChangePersonCommand(OrderedCommand):
    """`change` returns the person as they are now, and what else there is to tell."""

    question: str
    """What to ask on a terminal before."""
    done: str

    def act(self, services: StaffServices, user: User, options: Mapping[str, Any]) -> None:
        order = self.order(options)
        self.confirm(options, self.question.format(name=user.display_name, user_id=user.user_id))
        changed, more = self.change(services.people, user, order)
        self.report(options, self.done.format(user_id=user.user_id, **more), changed, **more)

    def change(self, people: People, user: User, order: Order) -> tuple[User, Mapping[str, Any]]:
        raise NotImplementedError


class SuspendCommand(ChangePersonCommand):
    help = "Suspend a person: sockets close within a second, logins, tokens and messages are refused until restored."
    question = "Suspend {name} ({user_id})?"
    done = "{user_id} is suspended."

    def change(self, people: People, user: User, order: Order) -> tuple[User, Mapping[str, Any]]:
        return people.suspend(user.user_id, order), {}


class RestoreCommand(ChangePersonCommand):
    help = "Restore a suspended person: the same tokens work again."
    question = "Restore {name} ({user_id})?"
    done = "{user_id} is restored."

    def change(self, people: People, user: User, order: Order) -> tuple[User, Mapping[str, Any]]:
        return people.restore(user.user_id, order), {}


class RevokeSessionsCommand(ChangePersonCommand):
    help = "Log a person out everywhere: sessions end and their sockets close."
    question = "Revoke all sessions of {name} ({user_id})?"
    done = "{revoked} sessions of {user_id} are revoked."

    def change(self, people: People, user: User, order: Order) -> tuple[User, Mapping[str, Any]]:
        return user, {"revoked": people.revoke_sessions(user.user_id, order)}


class ErasePersonCommand(ChangePersonCommand):
    help = "Erase a person: account, sessions, phone number, memberships and marks go, messages keep their places."
    question = "Erase {name} ({user_id}) for ever?"
    done = "{user_id} is erased."

    def change(self, people: People, user: User, order: Order) -> tuple[User, Mapping[str, Any]]:
        people.erase(user.user_id, order)
        return user, {"erased": True}


class ExportPersonCommand(OrderedCommand):
    help = "Write everything of a person to a ZIP of JSON files: account, sessions, chats, marks and own messages."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--output", type=Path, metavar="FILE", help="where to (default: <user_id>.zip)")

    def act(self, services: StaffServices, user: User, options: Mapping[str, Any]) -> None:
        order, path = self.order(options), options["output"] or Path(f"{user.user_id}.zip")
        try:
            with _new_file(path) as file:
                services.people.export(user.user_id, order, file)
        except OSError as error:
            raise CommandError(f"{path} is not written: {error.strerror}.", returncode=COULD_NOT_LOOK) from error
        self.report(options, f"{user.user_id} is exported to {path}.", user, file=str(path))


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """A file that only its owner may read, and that appears under its name once it is complete.

    Raises `FileExistsError`: it overwrites nothing.
    """
    if path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.") as file:  # with mode 0600
        yield cast("BinaryIO", file)
        file.flush()
        os.link(file.name, path)
