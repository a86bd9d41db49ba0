"""The base of operators' commands: their options, prompts, output and exit codes.

Exit codes: 0 nothing found, or all of it repaired; 1 found; 2 could not look. Prompts appear on a terminal only.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from foundation.kernel.errors import ParleyError
from staff.findings import Finding, Report
from staff.services.audit_log import Act, command_actor, recorded

FOUND, COULD_NOT_LOOK = 1, 2
BAR_WIDTH = 30


class StaffCommand(BaseCommand):
    """A command that looks, and changes something only when asked to."""

    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
        parser.add_argument("--yes", action="store_true", help="do not ask before changing something")
        parser.add_argument(
            "--as", dest="actor", metavar="NAME", help="who to name in the audit log (default: os:USER)"
        )
        parser.add_argument("--reason", help="why, for the audit log")

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Turn errors that are foreseen into one sentence and exit code 2."""
        try:
            return super().execute(*args, **options)
        except ParleyError as error:
            raise CommandError(error.detail, returncode=COULD_NOT_LOOK) from error

    def confirm(self, options: Mapping[str, Any], question: str) -> None:
        """Ask on a terminal. Ends the command when the answer is no."""
        if options["yes"] or not sys.stdin.isatty():
            return
        self.stderr.write(f"{question} [y/N] ", ending="")
        if input().strip().lower() not in {"y", "yes"}:
            raise CommandError("Nothing was changed.", returncode=COULD_NOT_LOOK)

    @contextmanager
    def recorded(
        self, options: Mapping[str, Any], *, action: str, target: str, details: Mapping[str, Any] | None = None
    ) -> Iterator[None]:
        """Enter the act in the audit log before it is done. Without the log, nothing is done."""
        act = Act(command_actor(options["actor"]), action, target, self._reason(options, action), details or {})
        try:
            with recorded(act):
                yield
        except DatabaseError as error:
            raise CommandError(
                f"The audit log cannot be written ({error}): nothing was changed. Run `manage.py migrate`.",
                returncode=COULD_NOT_LOOK,
            ) from error

    def _reason(self, options: Mapping[str, Any], action: str) -> str:
        if not options["reason"] and sys.stdin.isatty() and not options["yes"]:
            self.stderr.write("Why? ", ending="")
            options = {**options, "reason": input()}
        return options["reason"] or f"manage.py {action}"

    def finish(self, report: Report, options: Mapping[str, Any]) -> None:
        """Print the report. Ends the command with 1 when something is left to do."""
        if options["json"]:
            self.stdout.write(orjson.dumps(report.to_json(), option=orjson.OPT_INDENT_2).decode())
        else:
            for note in report.notes:
                self.stdout.write(note)
            self.stdout.write(table(report.findings))
        left = sum(not finding.repaired for finding in report.findings)
        if left:
            raise CommandError(f"{left} of {len(report.findings)} findings are left.", returncode=FOUND)
        if not options["json"]:
            done = f"All {len(report.findings)} findings are repaired" if report.findings else "Nothing found"
            self.stdout.write(f"{done}, {report.checked} checked.")

    def progress(self, options: Mapping[str, Any]) -> "ProgressBar":
        return ProgressBar(is_shown=sys.stderr.isatty() and not options["json"])


class ProgressBar:
    """One line on the terminal that is overwritten. A stage without a total shows a count."""

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown = is_shown

    def __call__(self, stage: str, done: int, total: int | None = None) -> None:
        if not self._is_shown:
            return
        if total:
            filled = BAR_WIDTH * min(done, total) // total
            sys.stderr.write(f"\r{stage} [{'#' * filled:<{BAR_WIDTH}}] {done:,} of {total:,}\033[K")
        else:
            sys.stderr.write(f"\r{stage} {done:,}\033[K")
        sys.stderr.flush()

    def close(self) -> None:
        if self._is_shown:
            sys.stderr.write("\r\033[K")


def table(findings: Sequence[Finding]) -> str:
    """Findings in aligned columns, for people."""
    rows = [
        (
            finding.kind,
            finding.chat_id or finding.user_id or "–",
            "" if finding.sequence is None else str(finding.sequence),
            "repaired" if finding.repaired else "",
            finding.detail,
        )
        for finding in findings
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)
