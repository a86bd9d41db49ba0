"""The base of operators' commands: prompts, exit codes, output."""

import json
import sys
from io import StringIO
from typing import Any

import pytest
from django.core.management.base import CommandError

from foundation.stores.errors import StoreUnavailable
from staff.command import COULD_NOT_LOOK, FOUND, StaffCommand
from staff.findings import Finding, Report

OPTIONS: dict[str, Any] = {"yes": False, "json": False, "actor": None, "reason": None}
LOST = Finding("missing", "It has no event.", "chat_1", 7)


class Command(StaffCommand):
    def handle(self, *args: Any, **options: Any) -> None:
        raise StoreUnavailable("DynamoDB did not answer")


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

    def test_yes_goes_on(self, command: StaffCommand, terminal: StringIO) -> None:
        terminal.write("y\n")
        terminal.seek(0)
        command.confirm(OPTIONS, "Sure?")

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
            command.finish(Report([LOST, LOST.mended()], checked=3), OPTIONS)
        assert found.value.returncode == FOUND
        assert "1 of 2" in str(found.value)
        assert "chat_1" in written(command)

    @pytest.mark.parametrize("findings", [[], [LOST.mended()]])
    def test_nothing_left_ends_with_0(self, command: StaffCommand, findings: list[Finding]) -> None:
        command.finish(Report(findings, checked=3), OPTIONS)
        assert "3 checked" in written(command)

    def test_json_is_one_document_with_the_documented_names(self, command: StaffCommand) -> None:
        command.finish(Report([LOST.mended()], checked=1), {**OPTIONS, "json": True})
        answer = json.loads(written(command))
        assert answer["checked"] == 1
        assert {"kind", "chat_id", "sequence", "repaired"} <= answer["findings"][0].keys()

    def test_an_engine_that_is_away_ends_with_2_and_one_sentence(self, command: StaffCommand) -> None:
        with pytest.raises(CommandError, match="did not answer") as away:
            command.execute(no_color=True, force_color=False, skip_checks=True)
        assert away.value.returncode == COULD_NOT_LOOK
