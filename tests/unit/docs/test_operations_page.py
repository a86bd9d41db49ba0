"""docs/operations.md and the runbooks: commands, options, files, parameters and outputs in them exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.session import get_session
from django.core.management import get_commands, load_command_class

from deploy.aws import data
from tests.templates import SERVICES, data_template, services_template
from tests.unit.docs.pages import ROOT, named

PAGE = ROOT / "docs/operations.md"
PAGES = [PAGE, *sorted((ROOT / "docs/runbooks").glob("*.md"))]
MOST_BYTES_WITHOUT_A_BUCKET = 51_200
TEMPLATES = {"deploy/aws/data.yaml": data_template(), "deploy/aws/services.yaml": services_template()}
# Of the AWS CLI alone, with their options.
OF_THE_CLI = {
    ("cloudformation", "deploy"): {
        "stack-name",
        "template-file",
        "s3-bucket",
        "capabilities",
        "parameter-overrides",
    },
    ("s3", "mb"): set[str](),
    ("ecr", "get-login-password"): set[str](),
}
OF_EVERY_COMMAND = {"query", "output"}


def command_lines(page: Path) -> Iterator[str]:
    """The commands of a page, in blocks and in sentences; what is in `$(…)` is a command of its own."""
    text = page.read_text()
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    for block in blocks:
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            if prompt := re.match(r"\s*[$#] (.+)", line):
                yield from re.findall(r"\$\(([^()]+)\)", prompt[1])
                yield re.sub(r"\$\([^()]+\)", "VALUE", prompt[1])
    yield from named(re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def words(line: str) -> list[str]:
    return shlex.split(line, comments=True)


def management_commands() -> Iterator[tuple[Path, str]]:
    found = re.compile(r"(?:manage\.py|deploy/aws/setup\.sh parley) ([^|;&]+)")
    for page in PAGES:
        for line in command_lines(page):
            yield from ((page, text.strip()) for text in found.findall(line))


def aws_commands(page: Path) -> Iterator[list[str]]:
    """Without what comes before, as in `NAME=$(aws …)`, and behind a pipe."""
    for line in command_lines(page):
        if start := re.search(r"(?<![\w-])aws (?=[a-z0-9]+ [a-z])", line):
            yield words(re.split(r" \| |; ", line[start.end() :])[0])


def deployments() -> list[list[str]]:
    return [command for command in aws_commands(PAGE) if command[:2] == ["cloudformation", "deploy"]]


def value(command: list[str], option: str) -> str:
    return command[command.index(option) + 1]


def overrides(command: list[str]) -> set[str]:
    return {word.partition("=")[0] for word in command if re.match(r"[A-Z][A-Za-z]+=", word)}


def options(command: list[str]) -> set[str]:
    return {word[2:].partition("=")[0] for word in command if word.startswith("--")}


@pytest.mark.parametrize(("page", "text"), list(management_commands()), ids=lambda value: getattr(value, "name", value))
def test_a_command_of_ours_exists_with_its_options(page: Path, text: str) -> None:
    name, *arguments = words(text)
    app = get_commands()[name]
    assert isinstance(app, str)
    known = {
        option
        for action in load_command_class(app, name).create_parser("manage.py", name)._actions
        for option in action.option_strings
    }
    assert {argument.partition("=")[0] for argument in arguments if argument.startswith("--")} <= known


def test_operators_are_told_every_step() -> None:
    steps = {text.split()[0] for page, text in management_commands() if page == PAGE}
    assert {"create_topics", "migrate", "createsuperuser", "check", "check_schema", "check_deploy"} <= steps


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_command_of_aws_exists_with_its_options(page: Path) -> None:
    session = get_session()
    for service, operation, *rest in aws_commands(page):
        given = options(rest) - OF_EVERY_COMMAND
        if (service, operation) in OF_THE_CLI:
            assert given <= OF_THE_CLI[service, operation], (service, operation)
            continue
        model = session.get_service_model(service)
        names = {_dashed(name): name for name in model.operation_names}
        shape = model.operation_model(names[operation]).input_shape
        known = {_dashed(name) for name in shape.members} if shape is not None else set()
        switches = {option.removeprefix("no-") for option in given}
        # The CLI's short form of `--ip-permissions`.
        assert switches <= known | {"protocol", "port", "source-group"}, (service, operation)


def _dashed(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


class TestTemplates:
    def test_the_page_deploys_both(self) -> None:
        assert {value(each, "--template-file") for each in deployments()} == TEMPLATES.keys()

    def test_one_that_cloudformation_takes_from_a_bucket_only_is_given_one(self) -> None:
        for path in (data.PATH, SERVICES):
            for command in deployments():
                if value(command, "--template-file").endswith(path.name):
                    is_long = path.stat().st_size > MOST_BYTES_WITHOUT_A_BUCKET
                    assert ("--s3-bucket" in command) == is_long, path.name
        made = [command[2] for command in aws_commands(PAGE) if command[:2] == ["s3", "mb"]]
        buckets = {value(command, "--s3-bucket") for command in deployments() if "--s3-bucket" in command}
        assert {f"s3://{bucket}" for bucket in buckets} == set(made)

    def test_parameters_exist(self) -> None:
        for command in deployments():
            assert overrides(command) <= TEMPLATES[value(command, "--template-file")]["Parameters"].keys()
        upgrades = [words(line) for line in command_lines(PAGE) if line.startswith("upgrade ")]
        assert upgrades
        for command in upgrades:
            assert overrides(command) <= TEMPLATES["deploy/aws/services.yaml"]["Parameters"].keys()

    @pytest.mark.parametrize("template", TEMPLATES)
    def test_the_first_deployment_gives_every_parameter_that_has_no_default(self, template: str) -> None:
        first = next(each for each in deployments() if value(each, "--template-file") == template)
        parameters = TEMPLATES[template]["Parameters"]
        assert {name for name, each in parameters.items() if "Default" not in each} <= overrides(first)

    def test_outputs_exist(self) -> None:
        asked = {found for line in command_lines(PAGE) for found in re.findall(r"^output (\w+)$", line)}
        script = (ROOT / "deploy/aws/setup.sh").read_text()
        asked |= set(re.findall(r"\(output (\w+)\)", script))
        assert {"KafkaClusterArn", "ProcessGroup", "SetupTask"} <= asked
        assert asked <= TEMPLATES["deploy/aws/services.yaml"]["Outputs"].keys()


def test_what_is_copied_to_systemd_are_units_and_no_secrets() -> None:
    [copied] = [words(line) for line in command_lines(PAGE) if line.startswith("cp deploy/systemd/")]
    sources = copied[1 : copied.index("/etc/systemd/system/")]
    files = {path.name for source in sources for path in ROOT.glob(source)}
    units = {path.name for kind in ("service", "target") for path in (ROOT / "deploy/systemd").glob(f"*.{kind}")}
    assert files == units


def test_files_exist() -> None:
    for line in command_lines(PAGE):
        for path in re.findall(r"(?<![\w/])(?:deploy|docs)/[\w./@*-]+", line):
            assert list(ROOT.glob(path)), path
