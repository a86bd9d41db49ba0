"""The operators' commands, run as an operator runs them."""

import os
import subprocess
import sys

import boto3
import pytest

from config.settings.capacity import TABLES


@pytest.fixture
def environment(dynamodb_url: str, kafka_servers: str) -> dict[str, str]:
    return {
        **os.environ,
        "DYNAMODB_ENDPOINT_URL": dynamodb_url,
        "KAFKA_BOOTSTRAP_SERVERS": kafka_servers,
        "TABLE_PREFIX": "commands_",
    }


def manage(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class TestTables:
    def test_create_check_and_notice_drift(self, environment: dict[str, str], dynamodb_url: str) -> None:
        client = boto3.client("dynamodb", endpoint_url=dynamodb_url, region_name="us-east-1")
        assert "the table is missing" in manage(environment, "check_schema").stdout
        assert manage(environment, "create_tables").returncode == 0
        names = {name.removeprefix("commands_") for name in client.list_tables()["TableNames"]}
        assert names >= set(TABLES)
        assert manage(environment, "check_schema").returncode == 0

        client.delete_table(TableName="commands_messages")
        drifted = manage(environment, "check_schema")
        assert drifted.returncode == 1
        assert drifted.stdout.splitlines() == ["commands_messages: the table is missing"]
        assert "1 difference" in drifted.stderr
        assert manage(environment, "create_tables").returncode == 0
        assert manage(environment, "check_schema").returncode == 0

    def test_an_engine_that_does_not_answer_is_reported_in_one_sentence(self, environment: dict[str, str]) -> None:
        result = manage({**environment, "DYNAMODB_ENDPOINT_URL": "http://127.0.0.1:9"}, "create_tables")
        assert result.returncode == 2
        assert result.stderr.strip() == "CommandError: DynamoDB did not answer (ConnectionRefusedError)"


class TestTopics:
    def test_topics_that_exist_are_left_alone(self, environment: dict[str, str]) -> None:
        assert manage(environment, "create_topics").stdout.strip() == "every topic exists"

    @pytest.mark.parametrize("option", ["--partitions=0", "--partitions=many", "--replication=0", "--replication=all"])
    def test_a_number_that_is_none_is_refused_in_a_sentence(self, environment: dict[str, str], option: str) -> None:
        refused = manage(environment, "create_topics", option)
        assert refused.returncode == 2
        assert f"a number above 0 is needed, not {option.partition('=')[2]!r}" in refused.stderr


class TestHelp:
    @pytest.mark.parametrize(
        "command",
        [
            "dev",
            "create_tables",
            "check_schema",
            "create_topics",
            "access_patterns",
            "reconcile",
            "audit",
            "replay",
            "drain",
            "check_deploy",
        ],
    )
    def test_every_command_explains_itself(self, environment: dict[str, str], command: str) -> None:
        result = manage(environment, command, "--help")
        assert result.returncode == 0
        assert len(result.stdout) > 100
