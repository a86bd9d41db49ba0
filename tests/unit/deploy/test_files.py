"""Containers, units and the example of services: every variable, command, port and probe in them exists in the code."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import load_command_class

from foundation.rest import health
from tests.templates import services_template

ROOT = Path(__file__).parents[3]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()
SERVICES = (ROOT / "deploy/aws/services.yaml").read_text()
UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
UNIT_ENVIRONMENT = (ROOT / "deploy/systemd/parley.env.example").read_text()
OURS = ("web-1", "web-2", "fanout-1", "fanout-2", "watch", "setup")
# Read by libraries: Django, botocore, Python.
OF_LIBRARIES = {
    "DJANGO_SETTINGS_MODULE",
    "DJANGO_SUPERUSER_PASSWORD",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "PATH",
    "PYTHONUNBUFFERED",
}
SECRET = "Zq3vT8xLw0RkYb7nHs2mEf5uJd9aPcG4oXi6tVr1BhWyKlNzQpSgDjMeUaCfOxIT"


def variables_of_the_code() -> set[str]:
    """The names in `env.text("NAME", …)` and its like, and in `os.environ`."""
    reading = re.compile(
        r"""(?:env|environ)(?:\.\w+)?\(\s*"([A-Z][A-Z0-9_]+)"|^\s+"([A-Z][A-Z0-9_]+)": "(?:ssl|sasl)""", re.MULTILINE
    )
    files = [*(ROOT / "config").rglob("*.py")]
    return {name for path in files for found in reading.findall(path.read_text()) for name in found if name}


def environments() -> Iterator[tuple[str, Mapping[str, str]]]:
    for name in OURS:
        yield f"compose {name}", {key: str(value) for key, value in COMPOSE["services"][name]["environment"].items()}
    yield "systemd", dict(line.split("=", 1) for line in UNIT_ENVIRONMENT.splitlines() if re.match("[A-Z]", line))
    yield "services.yaml", dict(re.findall(r"\{Name: ([A-Z_]+), Value(?:From)?: (.+)\}", SERVICES))
    yield "Dockerfile", dict.fromkeys(re.findall(r"^\s*(?:ENV )?([A-Z_]+)=", DOCKERFILE, re.MULTILINE), "")


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every `manage.py …` in the files."""
    for name in OURS:
        command = COMPOSE["services"][name]["command"]
        text = command[2] if command[:2] == ["sh", "-c"] else shlex.join(command)
        for part in text.split("&&"):
            yield f"compose {name}", shlex.split(part)
    for text in re.findall(r"^\s+Command: \[(python, .+)\]$", SERVICES, re.MULTILINE):
        yield "services.yaml", [word.strip(' "') for word in text.split(",")]
    for unit in UNITS:
        [text] = re.findall(r"^ExecStart=(.+)$", unit.read_text(), re.MULTILINE)
        yield unit.name, shlex.split(text.replace("%i", "1"))
    [text] = re.findall(r"^CMD \[(.+)\]$", DOCKERFILE, re.MULTILINE)
    yield "Dockerfile", [word.strip(' "') for word in text.split(",")]


def options_of(command: Sequence[str]) -> dict[str, Any]:
    assert command[1] == "manage.py"
    app = "django.core" if command[2] == "migrate" else "config"
    parser = load_command_class(app, command[2]).create_parser("manage.py", command[2])
    return vars(parser.parse_args(list(command[3:])))


class TestVariables:
    @pytest.mark.parametrize(("where", "environment"), list(environments()), ids=lambda value: str(value)[:30])
    def test_each_is_one_that_the_code_reads(self, where: str, environment: Mapping[str, str]) -> None:
        assert environment
        assert environment.keys() - OF_LIBRARIES <= variables_of_the_code()

    @pytest.mark.parametrize("name", ["web-1", "fanout-1"])
    def test_the_settings_of_production_accept_them(self, name: str) -> None:
        environment = dict(environments())[f"compose {name}"]
        values = {
            **environment,
            "SECRET_KEY": SECRET,
            "JWT_KEYS": f"first:{SECRET[::-1]}",
            "ALLOWED_HOSTS": "chat.example.com",
            "DATABASE_URL": "postgres://parley:word@postgres:5432/parley",
            "SMS_WEBHOOK_URL": "https://sms.example.com/send",
            "SMS_WEBHOOK_SECRET": SECRET[5:] + SECRET[:5],
        }
        result = subprocess.run(
            [sys.executable, "-c", "import django; django.setup()"],
            env={**values, "PATH": "/usr/bin"},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (result.returncode, result.stderr) == (0, "")

    def test_what_compose_asks_for_is_in_its_example(self) -> None:
        asked = set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "compose.yaml").read_text()))
        example = (ROOT / "deploy/compose/env.example").read_text()
        assert asked == set(re.findall(r"^([A-Z_]+)=", example, re.MULTILINE))

    def test_who_reads_an_environment_file_is_asked_for_the_credentials_of_dynamodb(self) -> None:
        """Units see no home directory, and so no `~/.aws`."""
        assert all("ProtectHome=yes" in unit.read_text() for unit in UNITS)
        assert {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} <= dict(environments())["systemd"].keys()

    def test_the_s3_of_compose_starts_on_demand_only(self) -> None:
        assert COMPOSE["services"]["objects"]["profiles"] == ["media"]


class TestCommands:
    @pytest.mark.parametrize(("where", "command"), list(commands()), ids=lambda value: str(value)[:60])
    def test_each_exists_with_its_options(self, where: str, command: list[str]) -> None:
        assert options_of(command)

    def test_every_deployment_runs_the_watch(self) -> None:
        watching = {where for where, command in commands() if command[2:4] == ["reconcile", "--watch"]}
        assert watching == {"compose watch", "parley-watch.service", "services.yaml"}
        assert "parley-watch.service" in (ROOT / "deploy/systemd/parley.target").read_text()

    def test_a_web_whose_files_are_read_only_has_a_directory_for_large_exports(self) -> None:
        task = services_template()["Resources"]["WebTask"]["Properties"]
        [container] = task["ContainerDefinitions"]
        mounts = {each["SourceVolume"]: each["ContainerPath"] for each in container["MountPoints"]}
        assert container["ReadonlyRootFilesystem"]
        assert [mounts[each["Name"]] for each in task["Volumes"]] == ["/tmp"]
        assert "VOLUME /tmp" in DOCKERFILE
        assert COMPOSE["services"]["web-1"]["tmpfs"] == ["/tmp"]

    @pytest.mark.parametrize("name", ["Web", "Fanout", "Watch"])
    def test_every_number_of_tasks_that_is_taken_can_be_replaced(self, name: str) -> None:
        """ECS rounds the least up and the most down: it must be able to start one more, or to stop one before."""
        template = services_template()
        bounds = template["Resources"][f"{name}Service"]["Properties"]["DeploymentConfiguration"]
        refused = [
            rule["Assert"]["Fn::Not"][0]["Fn::Equals"] for rule in template["Rules"]["CanBeReplaced"]["Assertions"]
        ]
        most = template["Parameters"][f"{name}Count"].get("MaxValue", 40)
        for count in range(1, most + 1):
            can_start = count * bounds["MaximumPercent"] // 100 > count
            can_stop = -(-count * bounds["MinimumHealthyPercent"] // 100) < count
            assert can_start or can_stop or [{"Ref": f"{name}Count"}, str(count)] in refused, count

    def test_the_topics_of_compose_ask_for_no_more_replicas_than_it_has_brokers(self) -> None:
        [create_topics] = [command for _, command in commands() if command[2] == "create_topics"]
        assert options_of(create_topics)["replication"] is None
        assert [name for name in COMPOSE["services"] if "kafka" in name] == ["kafka"]

    def test_the_ports_are_those_that_the_probes_ask(self) -> None:
        proxied = (ROOT / "deploy/compose/Caddyfile").read_text()
        for where, command in commands():
            options = options_of(command)
            if command[2] == "web" and where != "parley-web@.service":
                assert (options["host"], options["port"]) == ("0.0.0.0", 8000)
            if command[2] in {"fanout", "reconcile"} and not where.startswith("parley"):
                assert (options["metrics_host"], options["metrics_port"]) == ("0.0.0.0", 8001)
        assert SERVICES.count("http://127.0.0.1:8001/healthz") == SERVICES.count("Type: AWS::ECS::Service")
        assert "reverse_proxy web-1:8000 web-2:8000" in proxied
        assert "EXPOSE 8000" in DOCKERFILE
        for name in ("web-1", "fanout-1", "watch"):
            assert "http://127.0.0.1:8001/healthz" in str(COMPOSE["services"][name]["healthcheck"]["test"])
        for name, environment in environments():
            if name in {"compose web-1", "services.yaml"}:
                assert (environment["ADMIN_HOST"], environment["ADMIN_PORT"].strip('"')) == ("0.0.0.0", "8001")

    def test_the_ports_of_operators_are_reached_from_outside_the_containers_and_by_nobody_else(self) -> None:
        published = {name: COMPOSE["services"][name]["ports"] for name in OURS if "ports" in COMPOSE["services"][name]}
        assert published == {
            "web-1": ["127.0.0.1:8101:8001"],
            "web-2": ["127.0.0.1:8102:8001"],
            "fanout-1": ["127.0.0.1:8201:8001"],
            "fanout-2": ["127.0.0.1:8202:8001"],
            "watch": ["127.0.0.1:8301:8001"],
        }
        scraped = (ROOT / "deploy/prometheus/prometheus.yaml").read_text()
        assert all(ports[0].removesuffix(":8001") in scraped for ports in published.values())
        [group] = [each for each in services_template()["Resources"].values() if "operators to" in str(each)]
        assert [
            rule["SourceSecurityGroupId"]["Ref"]
            for rule in group["Properties"]["SecurityGroupIngress"]
            if rule["ToPort"] == 8001
        ] == ["OperatorGroup"]

    def test_prometheus_asks_the_ports_of_the_units(self) -> None:
        jobs = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yaml").read_text())["scrape_configs"]
        asked = {job["job_name"]: job["static_configs"][0]["targets"][0] for job in jobs}
        served = {
            f"parley-{name}": f"127.0.0.1:{options_of(command)['metrics_port']}"
            for where, command in commands()
            for name in ("fanout", "watch")
            if where.startswith(f"parley-{name}")
        }
        assert "ADMIN_PORT=810%i" in (ROOT / "deploy/systemd/parley-web@.service").read_text()
        assert asked == {"parley-web": "127.0.0.1:8101", **served}

    def test_containers_are_replaced_when_they_no_longer_live(self) -> None:
        assert set(re.findall(r":8001(/[\w/]+)", SERVICES + (ROOT / "compose.yaml").read_text())) == {"/healthz"}

    def test_proxies_leave_out_drained_gateways_and_keep_the_others_while_an_engine_is_away(self) -> None:
        text = SERVICES + (ROOT / "deploy/compose/Caddyfile").read_text()
        assert re.findall(r"(?:health_uri |HealthCheckPath: )(/[\w/]+)", text) == ["/readyz/gateway"] * 2

    def test_probes_ask_paths_that_are_served_to_every_host(self) -> None:
        files = (ROOT / "compose.yaml", ROOT / "deploy/compose/Caddyfile", ROOT / "deploy/aws/services.yaml")
        asked = set(re.findall(r"/(?:healthz|readyz)[\w/]*", "".join(path.read_text() for path in files)))
        assert asked <= set(health.PATHS)
        for path in health.PATHS:
            assert f'path("{path[1:]}"' in (ROOT / "config/urls.py").read_text()

    def test_the_image_holds_every_package_that_runs(self) -> None:
        kept = set(re.findall(r"^!([a-z_.]+)", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
        from django.conf import settings  # noqa: PLC0415

        apps = {app.partition(".")[0] for app in settings.INSTALLED_APPS if (ROOT / app.partition(".")[0]).is_dir()}
        assert apps | {"manage.py", "foundation", "config"} <= kept


class TestLinters:
    def test_hadolint_finds_nothing(self) -> None:
        assert _run("hadolint", "Dockerfile") == (0, "")

    def test_yamllint_finds_nothing(self) -> None:
        assert _run("yamllint", "--strict", "compose.yaml", "deploy") == (0, "")


def _run(program: str, *arguments: str) -> tuple[int, str]:
    path = Path(sys.executable).with_name(program)
    result = subprocess.run([path, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    return result.returncode, result.stdout + result.stderr
