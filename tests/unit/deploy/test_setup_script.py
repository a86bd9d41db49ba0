"""`deploy/aws/setup.sh` with an `aws` that records what it is asked."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from botocore.session import get_session

SCRIPT = Path(__file__).parents[3] / "deploy/aws/setup.sh"
TASK = "arn:aws:ecs:eu-central-1:123456789012:task/parley/abc"
AWS = """import json, os, sys
with open(os.environ["ASKED"], "a") as asked:
    asked.write(json.dumps(sys.argv[1:]) + "\\n")
words = " ".join(sys.argv[1:])
if "describe-stacks" in words:
    print(words.rpartition("OutputKey=='")[2].partition("'")[0])
elif "run-task" in words:
    print(os.environ["TASK"])
elif "lastStatus" in words:
    if "None" in words or os.environ["EXIT_CODE"] == "denied":
        sys.exit("no such task, or no right to see it")
    print("STOPPED")
elif "exitCode" in words:
    print(os.environ["EXIT_CODE"])
elif "stoppedReason" in words:
    print("no such image")
elif "filter-log-events" in words:
    print("one line\\tanother")
"""


class Run:
    def __init__(self, folder: Path, *arguments: str, exit_code: str = "0", task: str = f"{TASK}\tNone") -> None:
        program, asked = folder / "aws", folder / "asked"
        program.write_text(f"#!{sys.executable} -S\n{AWS}")
        program.chmod(0o755)
        environment = {"ASKED": str(asked), "TASK": task, "EXIT_CODE": exit_code}
        self.result = subprocess.run(
            [SCRIPT, *arguments],
            env={"PATH": f"{folder}:{os.environ['PATH']}", **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.asked: list[list[str]] = [json.loads(line) for line in asked.read_text().splitlines()]

    def value(self, operation: str, option: str) -> str:
        [asked] = [each for each in self.asked if each[1] == operation]
        return asked[asked.index(option) + 1]


def test_a_command_runs_with_its_options_where_the_processes_run(tmp_path: Path) -> None:
    run = Run(tmp_path, "parley", "createsuperuser", "--noinput", "--username", "the admin")
    assert (run.result.returncode, run.result.stdout) == (0, "one line\nanother\n")
    [override] = json.loads(run.value("run-task", "--overrides"))["containerOverrides"]
    words = ["python", "manage.py", "createsuperuser", "--noinput", "--username", "the admin"]
    assert override == {"name": "setup", "command": words}
    assert run.value("run-task", "--task-definition") == "SetupTask"
    network = "awsvpcConfiguration={subnets=[Subnets],securityGroups=[ProcessGroup]}"
    assert run.value("run-task", "--network-configuration") == network
    assert run.value("filter-log-events", "--log-stream-names") == "setup/setup/abc"


def test_it_ends_as_the_command_does(tmp_path: Path) -> None:
    run = Run(tmp_path, "parley", "check_deploy", exit_code="1")
    assert (run.result.returncode, run.result.stdout) == (1, "one line\nanother\n")


def test_a_task_that_does_not_start_says_why(tmp_path: Path) -> None:
    run = Run(tmp_path, "parley", "migrate", exit_code="None")
    assert (run.result.returncode, run.result.stderr) == (2, "no such image\n")


def test_a_task_that_aws_does_not_make_ends_it_with_the_reason(tmp_path: Path) -> None:
    run = Run(tmp_path, "parley", "migrate", task="None\tno capacity in this zone")
    assert (run.result.returncode, run.result.stderr) == (2, "AWS started no task: no capacity in this zone\n")


def test_it_does_not_wait_for_a_task_that_it_cannot_see(tmp_path: Path) -> None:
    run = Run(tmp_path, "parley", "migrate", exit_code="denied")
    assert (run.result.returncode, run.result.stderr) == (1, "no such task, or no right to see it\n")


def test_a_long_log_is_read_to_its_end() -> None:
    """The AWS CLI turns the pages of this operation, and not those of `get-log-events`."""
    [operation] = re.findall(r"^aws logs ([\w-]+)", SCRIPT.read_text(), re.MULTILINE)
    name = "".join(part.capitalize() for part in operation.split("-"))
    assert get_session().get_paginator_model("logs").get_paginator(name)


@pytest.mark.parametrize("arguments", [(), ("parley",)])
def test_without_a_command_it_says_what_it_needs(arguments: tuple[str, ...]) -> None:
    result = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode != 0
    assert "the name of the stack" in result.stderr or "a command of manage.py" in result.stderr


def test_what_it_asks_of_aws_exists(tmp_path: Path) -> None:
    for service, operation, *rest in Run(tmp_path, "parley", "migrate").asked:
        model = get_session().get_service_model(service)
        [name] = [each for each in model.operation_names if each.lower() == operation.replace("-", "")]
        shape = model.operation_model(name).input_shape
        assert shape is not None
        known = {each.lower() for each in shape.members} | {"query", "output"}
        asked = {re.sub("^no-", "", word[2:]).replace("-", "") for word in rest if word.startswith("--")}
        assert asked <= known, operation
