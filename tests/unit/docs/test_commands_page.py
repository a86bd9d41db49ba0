"""docs/commands.md has every command of ours, with its options."""

import re

import pytest
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand

from tests.unit.docs.pages import ROOT, named, section, tables

OURS = sorted(name for name, app in get_commands().items() if app == "config")
OPTION = r"--[a-z-]+"
DJANGOS = {"migrate"}
EXTENDED = {"createsuperuser", "changepassword"}
"""Commands of Django's, to which ours add options."""


PAGE = section("docs/commands.md", "## manage.py")


def rows(text: str = PAGE) -> dict[str, str]:
    """What the page says of each command, by its name."""
    cells = [row[0] for table in tables(text) for row in table]
    texts = [text for cell in cells for text in named(cell)]
    assert len(texts) == len({text.split()[0] for text in texts})
    return {text.split()[0]: text for text in texts}


def shared() -> dict[str, set[str]]:
    """The options that the page names once for several commands: those of the tables "Repair" and "People"."""
    found = re.search(r"^Repair and people: these take (.*?)\. All but (.*?) take (.*?)\. Exit.*$", PAGE, re.MULTILINE)
    assert found is not None
    of_all, looking, of_others = found.groups()
    commands = rows(PAGE[found.end() : PAGE.index("| Staff |")])
    others = commands.keys() - named(looking)
    return {name: set(re.findall(OPTION, of_all + of_others if name in others else of_all)) for name in commands}


def options(name: str) -> set[str]:
    """The long options that a command adds to those of every command, or to those of Django's."""
    actions = load_command_class("config", name).create_parser("manage.py", "command")._actions
    inherited = load_command_class("django.contrib.auth", name) if name in EXTENDED else BaseCommand()
    known = {option for action in inherited.create_parser("manage.py", "")._actions for option in action.option_strings}
    return {option for action in actions for option in action.option_strings if option.startswith("--")} - known


class TestManage:
    def test_every_command_is_listed_and_no_other(self) -> None:
        assert rows().keys() - DJANGOS == set(OURS)

    @pytest.mark.parametrize("name", OURS)
    def test_its_options_are_listed_and_no_other(self, name: str) -> None:
        assert set(re.findall(OPTION, rows()[name])) | shared().get(name, set()) == options(name)


class TestMake:
    def test_every_target_is_listed(self) -> None:
        targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
        listed = [named(row[0])[0] for row in tables(section("docs/commands.md", "## make"))[0]]
        assert sorted(listed) == sorted(set(targets) - {"help"})
