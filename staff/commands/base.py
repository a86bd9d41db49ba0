"""The base of operators' commands: their options, prompts, output and exit codes.

Exit codes: 0 nothing found, or all of it repaired; 1 found; 2 could not look. Prompts appear on a terminal only.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
from django.core.management.base import CommandError
from django.db import Error as DatabaseError

from foundation.commands.base import COULD_NOT_LOOK, EngineCommand
from staff.findings import Finding, Report
from staff.services.audit_log import Act, command_actor, recorded

FOUND = 1
BAR_WIDTH = 30


class OperatorCommand(EngineCommand):
    """Ends with one sentence and exit code 2 when an engine or the staff's database fails."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except DatabaseError as error:
            raise CommandError(
                f"The staff's database, which has the audit log, cannot be used ({' '.join(str(error).split())}): "
                "nothing was changed. Run `manage.py migrate` if it is new.",
                returncode=COULD_NOT_LOOK,
            ) from error


class LookCommand(OperatorCommand):
    """A command that prints what it has found."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")

    def finish(self, report: Report, options: Mapping[str, Any]) -> None:
        """Print the report. Ends the command with 1 when something is left to do, or else 2 where part was not seen."""
        if options["json"]:
            self.stdout.write(orjson.dumps(report.to_json(), option=orjson.OPT_INDENT_2).decode())
        else:
            for note in report.notes:
                self.stdout.write(note)
            if report.findings:
                self.stdout.write(table(report.findings))
        if report.left:
            may_repair = options.get("repair") is False and any("Repair:" in each.detail for each in report.findings)
            advice = " Run it with --repair for the repairs that they name." if may_repair else ""
            unseen = f" {report.unseen}" if report.unseen else ""
            raise CommandError(
                f"{len(report.left)} of {len(report.findings)} findings are left.{advice}{unseen}", returncode=FOUND
            )
        if report.unseen:
            raise CommandError(report.unseen, returncode=COULD_NOT_LOOK)
        if not options["json"]:
            count = len(report.findings)
            repaired = "The one finding is repaired" if count == 1 else f"All {count} findings are repaired"
            sentence = f"{repaired if count else 'Nothing found'}, {report.checked} checked."
            self.stdout.write(sentence if report.findings else report.all_well or sentence)

    def progress(self, options: Mapping[str, Any]) -> "ProgressBar":
        return ProgressBar(is_shown=sys.stderr.isatty() and not options["json"])


class StaffCommand(LookCommand):
    """A command that changes something or exports it: it may ask before, and the audit log names who acted and why."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--yes", action="store_true", help="do not ask before changing something")
        parser.add_argument(
            "--as", dest="actor", metavar="NAME", help="who to name in the audit log (default: os:USER)"
        )
        parser.add_argument("--reason", help="why, for the audit log")

    def confirm(self, options: Mapping[str, Any], question: str) -> None:
        """Ask on a terminal. Ends the command when the answer is no."""
        if options["yes"] or not sys.stdin.isatty():
            return
        if self._ask(f"{question} [y/N] ").lower() not in {"y", "yes"}:
            raise CommandError("Nothing was changed.", returncode=COULD_NOT_LOOK)

    @contextmanager
    def recorded(
        self, options: Mapping[str, Any], *, action: str, target: str, details: Mapping[str, Any] | None = None
    ) -> Iterator[None]:
        """Enter the act in the audit log before it is done. Without the log, nothing is done."""
        reason = self.reason(options) or f"manage.py {action}"
        act = Act(command_actor(options["actor"]), action, target, reason, details or {})
        with recorded(act):
            yield

    def reason(self, options: Mapping[str, Any]) -> str:
        """What `--reason` says, or else a terminal; empty without both."""
        if options["reason"] or options["yes"] or not sys.stdin.isatty():
            return options["reason"] or ""
        return self._ask("Why? ")

    def _ask(self, question: str) -> str:
        """What is typed; nothing at the end of the input."""
        self.stderr.write(question, style_func=str, ending="")  # An error is red, a question is not.
        try:
            return input().strip()
        except EOFError:
            return ""


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
    """Findings in aligned columns, for people, without a column that is empty."""
    rows = [
        (
            finding.kind,
            finding.topic or "",
            finding.chat_id or finding.user_id or "–",
            "" if finding.sequence is None else str(finding.sequence),
            "repaired" if finding.repaired else "",
            finding.detail,
        )
        for finding in findings
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width] for row in rows]
    return "\n".join("  ".join(line).rstrip() for line in lines)
