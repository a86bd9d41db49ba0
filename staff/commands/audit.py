from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError

from foundation.commands.base import COULD_NOT_LOOK
from staff.commands.base import StaffCommand
from staff.parts import Recovery
from staff.services.audit.auditor import AuditScope


class AuditCommand(StaffCommand):
    services: Callable[[], Recovery]
    help = (
        "Check that what DynamoDB holds agrees with itself: sequences, counters, keys, memberships, claims, marks. "
        "Safe during traffic. Exit code 0: nothing found or all repaired; 1: found; 2: could not look."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--chat", action="append", default=[], metavar="ID", help="this chat; may be repeated")
        parser.add_argument("--user", action="append", default=[], metavar="ID", help="this person; may be repeated")
        parser.add_argument("--all", action="store_true", help="everything: an offline scan, at a limited rate")
        parser.add_argument("--repair", action="store_true", help="repair what leaves no doubt")

    def handle(self, *args: Any, **options: Any) -> None:
        scope = AuditScope(chat_ids=options["chat"], user_ids=options["user"], everything=options["all"])
        if scope.everything == bool(scope.chat_ids or scope.user_ids):
            raise CommandError("Name chats and people by --chat and --user, or say --all.", returncode=COULD_NOT_LOOK)
        parts, progress = self.services(), self.progress(options)
        if not options["repair"]:
            report = parts.run(parts.auditor.run(scope, on_progress=progress))
        else:
            self.confirm(options, "Repair what is safe to repair?")
            target = "all" if scope.everything else ",".join([*scope.chat_ids, *scope.user_ids])
            with self.recorded(options, action="audit", target=target[:150]):
                report = parts.run(parts.auditor.run(scope, repair=True, on_progress=progress))
        progress.close()
        self.finish(report, options)
