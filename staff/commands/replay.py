from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

import orjson

from foundation.kernel.events import TOPICS
from staff.commands.base import StaffCommand
from staff.durations import moment
from staff.parts import Recovery


class ReplayCommand(StaffCommand):
    services: Callable[[], Recovery]
    help = (
        "Let a consumer group start again from an earlier place of the log. Stop its consumers first. With --dry-run, "
        "print where the group is and where it would start. Exit code 2: could not."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--group", required=True, metavar="NAME", help="the consumer group, such as fanout")
        parser.add_argument(
            "--from",
            required=True,
            dest="start",
            metavar="beginning|TIME",
            help="the oldest event that is left, or a time: 2026-01-30T14:30:00Z, or 2h ago as 2h",
        )
        parser.add_argument("--topic", choices=sorted(set(TOPICS)), help="only this topic (default: all)")
        parser.add_argument("--dry-run", action="store_true", help="only print what would happen")

    def handle(self, *args: Any, **options: Any) -> None:
        parts, group = self.services(), options["group"]
        start = None if options["start"] == "beginning" else moment(options["start"], now=parts.clock.now())
        topics = [options["topic"]] if options["topic"] else sorted(set(TOPICS))
        moves = parts.replay.plan(group, topics=topics, moment=start)
        if not options["dry_run"]:
            self.confirm(options, f"Let {group} read {sum(move.repeated for move in moves):,} events again?")
            with self.recorded(options, action="replay", target=group, details={"from": options["start"]}):
                parts.replay.run(group, moves)
        if options["json"]:
            answer = {"group": group, "moved": not options["dry_run"], "partitions": [each.to_json() for each in moves]}
            self.stdout.write(orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode())
            return
        for move in moves:
            committed = "–" if move.place.committed is None else move.place.committed
            self.stdout.write(
                f"{move.place.topic}[{move.place.partition}]  at {committed}, {move.place.lag} behind  -> {move.target}"
            )
        done = "would start" if options["dry_run"] else "starts"
        self.stdout.write(f"{group} {done} there: {sum(move.repeated for move in moves)} events to read.")
