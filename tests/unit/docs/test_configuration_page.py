"""docs/configuration.md has every environment variable that the code reads, with its default."""

import ast
from collections.abc import Iterator
from pathlib import Path

from config.settings import kafka
from tests.unit.docs.pages import ROOT, named, tables

APPS = ("accounts", "chats", "config", "delivery", "demo", "dev", "engines", "foundation", "messaging", "staff")
READERS = {"text", "required", "listed", "one_of", "url", "database", "number", "whole", "key_ring"}
# Read in a loop, or by Django.
ELSEWHERE = {*kafka.TLS, *kafka.CREDENTIALS, "WEB", "FANOUT"}
# Described above the tables.
NOT_LISTED = {"DJANGO_SETTINGS_MODULE"}


def documented() -> dict[str, str]:
    """The variables with their defaults, in backticks unless they are numbers or words about them."""
    rows = [row for table in tables((ROOT / "docs/configuration.md").read_text()) for row in table]
    names = [named(row[0])[0] for row in rows]
    assert len(names) == len(set(names))
    return {name: row[1] for name, row in zip(names, rows, strict=True)}


def reads(path: Path) -> Iterator[tuple[str, str, str | None]]:
    """The variables that a module reads: name, reader, and the default where it is a constant."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(ast.Attribute(ast.Name("env"), method), [ast.Constant(str(name)), *rest]) if (
                method in READERS
            ):
                default = rest[-1] if rest and method not in ("required", "key_ring", "url") else None
            case ast.Call(ast.Attribute(ast.Attribute(_, "environ"), "get"), [ast.Constant(str(name)), *rest]):
                method, default = "get", rest[0] if rest else None
            case ast.Call(ast.Attribute(ast.Name("env"), "limit"), [ast.Constant(str(limit))], keywords):
                for keyword in keywords:
                    yield f"{limit}_{str(keyword.arg).upper()}", "limit", ast.unparse(keyword.value)
                continue
            case _:
                continue
        yield name, method, str(default.value) if isinstance(default, ast.Constant) else None


def settings(module: str) -> list[tuple[str, str, str | None]]:
    return list(reads(ROOT / "config/settings" / f"{module}.py"))


class TestVariables:
    def test_every_variable_is_listed_and_no_other(self) -> None:
        sources = [path for app in APPS for path in (ROOT / app).rglob("*.py")]
        read = {name for path in sources for name, _, _ in reads(path)}
        assert documented().keys() == (read | ELSEWHERE) - NOT_LISTED

    def test_the_defaults_are_those_of_production(self) -> None:
        defaults: dict[str, str] = {}
        for module in ("base", "kafka", "production"):
            defaults |= {name: default for name, _, default in settings(module) if default is not None}
        assert len(defaults) > 25
        listed = {name: default for name, default in documented().items() if name in defaults}
        for name, default in listed.items():
            if default == "none":
                assert defaults[name] in ("", "0"), name
            elif default != "required":
                assert defaults[name] == default.strip("`"), name

    def test_what_production_requires_is_marked(self) -> None:
        read = [each for module in ("production", "edges") for each in settings(module)]
        required = {name for name, method, _ in read if method == "required"}
        # Required with `SMS_BACKEND=webhook` only.
        required -= {"SMS_WEBHOOK_URL", "SMS_WEBHOOK_SECRET"}
        marked = {name for name, default in documented().items() if default == "required"}
        assert marked == required | {"ALLOWED_HOSTS"}
