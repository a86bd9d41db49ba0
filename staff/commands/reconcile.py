import signal
import threading
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError

from foundation.commands.base import COULD_NOT_LOOK
from foundation.commands.health import add_health_arguments, serve_health
from staff.commands.base import StaffCommand
from staff.durations import moment
from staff.parts import Recovery
from staff.services.reconcile import Scope


class ReconcileCommand(StaffCommand):
    """`log_start` logs the start of a watching process, given its name."""

    services: Callable[[], Recovery]
    log_start: Callable[[str], None]

    help = (
        "Compare DynamoDB with Kafka, as far back as the log goes: created chats, entries and changes of members "
        "without an event, events of what is not stored, events out of order. Safe during traffic. Exit code 0: "
        "nothing found or all repaired; 1: found; 2: could not look."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--chat", action="append", default=[], metavar="ID", help="this chat; may be repeated")
        parser.add_argument("--since", metavar="TIME", help="chats with an event since then, such as 1h (default: 1h)")
        parser.add_argument("--all", action="store_true", help="every chat: an offline scan, at a limited rate")
        parser.add_argument(
            "--watch",
            action="store_true",
            help="a service: go on, and publish what a process that crashed has stored and not published",
        )
        parser.add_argument("--repair", action="store_true", help="publish what is missing, in order")
        add_health_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["watch"]:
            self._watch(options)
            return
        if options["metrics_port"]:
            raise CommandError("--metrics-port goes with --watch.", returncode=COULD_NOT_LOOK)
        if options["all"] and (options["chat"] or options["since"]):
            raise CommandError("--all is every chat: leave out --chat and --since.", returncode=COULD_NOT_LOOK)
        parts = self.services()
        since = options["since"] or (None if options["chat"] or options["all"] else "1h")
        scope = Scope(
            chat_ids=options["chat"],
            since=moment(since, now=parts.clock.now()) if since else None,
            everything=options["all"],
        )
        progress = self.progress(options)
        if not options["repair"]:
            report = parts.run(parts.reconciler.run(scope, on_progress=progress))
        else:
            self.confirm(options, "Publish the missing events?")
            target = ",".join(options["chat"]) or ("all" if options["all"] else f"since {since}")
            with self.recorded(options, action="reconcile", target=target[:150]):
                report = parts.run(parts.reconciler.run(scope, repair=True, on_progress=progress))
        progress.close()
        self.finish(report, options)

    def _watch(self, options: dict[str, Any]) -> None:
        if options["chat"] or options["since"] or options["all"]:
            raise CommandError("--watch finds its chats by itself.", returncode=COULD_NOT_LOOK)
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        self.log_start("watch")
        parts = self.services()
        serve_health(options, parts.probes)
        self.stdout.write("watching")
        parts.watcher.run(stop)
        self.stdout.write("the watch has ended")
