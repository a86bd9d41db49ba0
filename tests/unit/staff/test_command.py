"""The base of operators' commands: prompts, exit codes, output."""

import json
import sys
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.db import InterfaceError, OperationalError

from foundation.commands.base import COULD_NOT_LOOK
from foundation.stores.errors import StoreUnavailable
from staff.commands.base import FOUND, StaffCommand
from staff.commands.drain import DrainCommand
from staff.commands.people import SuspendCommand
from staff.findings import Finding, Report

OPTIONS: dict[str, Any] = {"yes": False, "json": False, "actor": None, "reason": None}
LOST = Finding("missing", "It has no event.", "chat_1", 7)


class Command(StaffCommand):
    failure: Exception = StoreUnavailable("DynamoDB did not answer")

    def handle(self, *args: Any, **options: Any) -> None:
        raise self.failure


@pytest.fixture
def command() -> StaffCommand:
    return Command(stdout=StringIO(), stderr=StringIO())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """A terminal whose user types what the test writes here."""
    typed = StringIO()
    monkeypatch.setattr(typed, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", typed)
    return typed


def written(command: StaffCommand) -> str:
    return command.stdout._out.getvalue()  # type: ignore[attr-defined, no-any-return]


class TestPrompts:
    @pytest.mark.parametrize("answer", ["n\n", "\n", "perhaps\n"])
    def test_anything_but_yes_ends_the_command(self, command: StaffCommand, terminal: StringIO, answer: str) -> None:
        terminal.write(answer)
        terminal.seek(0)
        with pytest.raises(CommandError) as refused:
            command.confirm(OPTIONS, "Sure?")
        assert refused.value.returncode == COULD_NOT_LOOK

    def test_the_end_of_the_input_is_no(self, command: StaffCommand, terminal: StringIO) -> None:
        with pytest.raises(CommandError, match="Nothing was changed"):
            command.confirm(OPTIONS, "Sure?")

    def test_yes_goes_on(self, command: StaffCommand, terminal: StringIO) -> None:
        terminal.write("y\n")
        terminal.seek(0)
        command.confirm(OPTIONS, "Sure?")

    def test_a_question_does_not_look_like_an_error(self, terminal: StringIO) -> None:
        command = Command(stdout=StringIO(), stderr=StringIO(), force_color=True)
        terminal.write("y\n")
        terminal.seek(0)
        command.confirm(OPTIONS, "Sure?")
        assert command.stderr._out.getvalue() == "Sure? [y/N] "  # type: ignore[attr-defined]

    def test_a_terminal_is_asked_for_the_reason_that_a_command_needs(self, terminal: StringIO) -> None:
        terminal.write("spam\n")
        terminal.seek(0)
        command = SuspendCommand(stdout=StringIO(), stderr=StringIO())
        assert command.order({**OPTIONS, "actor": "grace"}).reason == "spam"

    def test_with_yes_or_without_a_terminal_nobody_is_asked(
        self, command: StaffCommand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))
        command.confirm({**OPTIONS, "yes": True}, "Sure?")
        monkeypatch.setattr(sys, "stdin", StringIO())
        command.confirm(OPTIONS, "Sure?")


class TestReports:
    def test_what_is_left_ends_with_1(self, command: StaffCommand) -> None:
        with pytest.raises(CommandError) as found:
            command.finish(Report([LOST, LOST.as_repaired()], checked=3), OPTIONS)
        assert found.value.returncode == FOUND
        assert "1 of 2" in str(found.value)
        assert "chat_1" in written(command)

    @pytest.mark.parametrize(
        ("detail", "options", "is_advised"),
        [
            ("It has no event. Repair: publish it.", {"repair": False}, True),
            ("It has no event. Repair: publish it.", {"repair": True}, False),
            ("Find out why.", {"repair": False}, False),
            ("It has no event. Repair: publish it.", {}, False),
        ],
    )
    def test_repair_is_advised_where_a_finding_names_one(
        self, command: StaffCommand, detail: str, options: dict[str, bool], is_advised: bool
    ) -> None:
        with pytest.raises(CommandError) as found:
            command.finish(Report([replace(LOST, detail=detail)], checked=1), {**OPTIONS, **options})
        assert ("--repair" in str(found.value)) is is_advised

    def test_a_row_has_the_topic_where_there_is_one(self, command: StaffCommand) -> None:
        command.finish(
            Report([replace(LOST, topic="chats.created").as_repaired(), LOST.as_repaired()], checked=2), OPTIONS
        )
        assert written(command).splitlines()[:2] == [
            "missing  chats.created  chat_1  7  repaired  It has no event.",
            "missing                 chat_1  7  repaired  It has no event.",
        ]

    def test_a_column_without_anything_is_left_out(self, command: StaffCommand) -> None:
        command.finish(Report([LOST.as_repaired()], checked=1), OPTIONS)
        assert written(command).splitlines()[0] == "missing  chat_1  7  repaired  It has no event."

    @pytest.mark.parametrize(
        ("findings", "code"), [([], COULD_NOT_LOOK), ([LOST.as_repaired()], COULD_NOT_LOOK), ([LOST], FOUND)]
    )
    def test_what_could_not_be_looked_at_is_not_well(
        self, command: StaffCommand, findings: list[Finding], code: int
    ) -> None:
        with pytest.raises(CommandError, match="Redis does not answer") as ended:
            command.finish(
                Report(findings, checked=0, all_well="All is well.", unseen="Redis does not answer"), OPTIONS
            )
        assert ended.value.returncode == code
        assert "All is well" not in written(command)

    @pytest.mark.parametrize("findings", [[], [LOST.as_repaired()]])
    def test_nothing_left_ends_with_0(self, command: StaffCommand, findings: list[Finding]) -> None:
        command.finish(Report(findings, checked=3), OPTIONS)
        assert "3 checked" in written(command)

    def test_json_is_one_document_with_the_documented_names(self, command: StaffCommand) -> None:
        command.finish(Report([LOST.as_repaired()], checked=1), {**OPTIONS, "json": True})
        answer = json.loads(written(command))
        assert answer["checked"] == 1
        assert {"kind", "topic", "chat_id", "sequence", "user_id", "repaired"} <= answer["findings"][0].keys()

    @pytest.mark.parametrize("failure", [StoreUnavailable("DynamoDB did not answer"), TimeoutError()])
    def test_an_engine_that_is_away_ends_with_2_and_one_sentence(
        self, command: StaffCommand, monkeypatch: pytest.MonkeyPatch, failure: Exception
    ) -> None:
        monkeypatch.setattr(command, "failure", failure)
        with pytest.raises(CommandError, match="did not answer") as away:
            command.execute(no_color=True, force_color=False, skip_checks=True)
        assert away.value.returncode == COULD_NOT_LOOK

    @pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
    def test_a_database_that_is_away_ends_with_2_and_one_line(
        self, command: StaffCommand, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
    ) -> None:
        monkeypatch.setattr(command, "failure", kind("connection refused\n\tIs the server running?"))
        with pytest.raises(CommandError, match="nothing was changed") as away:
            command.execute(no_color=True, force_color=False, skip_checks=True)
        assert away.value.returncode == COULD_NOT_LOOK
        assert "\n" not in str(away.value)


class TestDrain:
    def test_undo_without_a_gateway_is_refused(self) -> None:
        with pytest.raises(CommandError, match="GATEWAY") as refused:
            DrainCommand().handle(**OPTIONS, gateway=None, undo=True)
        assert refused.value.returncode == COULD_NOT_LOOK
