"""A page of `docs/runbooks`, and running its commands as they stand there."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import boto3

from engines.processes import PROJECT_ROOT

PAGES = PROJECT_ROOT / "docs" / "runbooks"
SECTIONS = ("Symptom", "Check", "Commands", "Over when")
_FENCE = re.compile(r"```console\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Outcome:
    command: str
    code: int
    output: str
    errors: str = ""


class Runbook:
    """`names` are put in the place of words like CHAT_ID."""

    def __init__(self, page: str, environment: Mapping[str, str], **names: str) -> None:
        self.text = (PAGES / f"{page}.md").read_text()
        self._environment = dict(environment)
        self._names = names

    def commands(self, section: str) -> list[str]:
        """The commands of a section, with the names put in."""
        _, _, rest = self.text.partition(f"\n## {section}\n")
        assert rest, f"the page has no section {section}"
        body = rest.partition("\n## ")[0]
        lines = [line for block in _FENCE.findall(body) for line in block.splitlines() if line.startswith("$ ")]
        return [self._filled(line.removeprefix("$ ")) for line in lines]

    def run(self, section: str) -> list[Outcome]:
        return [self.execute(command) for command in self.commands(section)]

    def _filled(self, command: str) -> str:
        for name, value in self._names.items():
            command = command.replace(name, value)
        return command

    def execute(self, command: str) -> Outcome:
        """Run one command line, with variables in front of it if it has some."""
        words = shlex.split(command)
        environment = dict(self._environment)
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        if words[0] == "aws":
            return Outcome(command, 0, str(aws(words[1:], environment)))
        assert words[0] == "python", command
        done = subprocess.run(
            [sys.executable, *words[1:]],
            cwd=PROJECT_ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        return Outcome(command, done.returncode, done.stdout, done.stderr)


def aws(words: list[str], environment: Mapping[str, str]) -> Any:
    """What the AWS command line would do: an operation with its options, such as `--source-table-name`."""
    _, operation, *options = words
    client = boto3.client("dynamodb", endpoint_url=environment["DYNAMODB_ENDPOINT_URL"], region_name="us-east-1")
    return getattr(client, operation.replace("-", "_"))(**dict(_parameters(options)))


def _parameters(options: list[str]) -> Iterator[tuple[str, str | bool]]:
    waiting = list(options)
    while waiting:
        name = "".join(part.capitalize() for part in waiting.pop(0).removeprefix("--").split("-"))
        yield name, waiting.pop(0) if waiting and not waiting[0].startswith("--") else True
