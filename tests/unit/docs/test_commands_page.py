"""docs/commands.md has every command of ours, with its options."""

import re

import pytest
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand

from staff.commands.base import StaffCommand
from tests.unit.docs.pages import ROOT, named, section, tables

OURS = sorted(name for name, app in get_commands().items() if app == "config")
DJANGOS = {"migrate"}
EXTENDED = {"createsuperuser", "changepassword"}
"""Commands of Django's, to which ours add options."""


def rows() -> dict[str, str]:
    """What the page says of each command, by its name."""
    cells = [row[0] for table in tables(section("docs/commands.md", "## manage.py")) for row in table]
    texts = [text for cell in cells for text in named(cell)]
    assert len(texts) == len({text.split()[0] for text in texts})
    return {text.split()[0]: text for text in texts}


def options(name: str) -> set[str]:
    """The long options that a command adds to those of every command, or to those of Django's."""
    command = load_command_class("config", name)
    actions = command.create_parser("manage.py", "command")._actions
    inherited = StaffCommand() if isinstance(command, StaffCommand) else BaseCommand()
    if name in EXTENDED:
        inherited = load_command_class("django.contrib.auth", name)
    known = {option for action in inherited.create_parser("manage.py", "")._actions for option in action.option_strings}
    return {option for action in actions for option in action.option_strings if option.startswith("--")} - known


class TestManage:
    def test_every_command_is_listed_and_no_other(self) -> None:
        assert rows().keys() - DJANGOS == set(OURS)

    @pytest.mark.parametrize("name", OURS)
    def test_its_options_are_listed_and_no_other(self, name: str) -> None:
        assert set(re.findall(r"--[a-z-]+", rows()[name])) == options(name)


class TestMake:
    def test_every_target_is_listed(self) -> None:
        targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
        listed = [named(row[0])[0] for row in tables(section("docs/commands.md", "## make"))[0]]
        assert sorted(listed) == sorted(set(targets) - {"help"})
