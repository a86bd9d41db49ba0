"""`manage.py dev` on external engines: it creates tables and topics, serves, and leaves the engines running."""

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import boto3
import httpx
import pytest
import redis

from config.wiring.commands import TABLES
from tests.e2e.dev_run import DevRun


@pytest.fixture
def engines(dynamodb_url: str, kafka_servers: str, redis_url: str) -> dict[str, str]:
    """The variables that point a run at them."""
    return {
        "ENGINES": "external",
        "DYNAMODB_ENDPOINT_URL": dynamodb_url,
        "KAFKA_BOOTSTRAP_SERVERS": kafka_servers,
        "REDIS_URL": redis_url,
        "TABLE_PREFIX": f"external_{uuid.uuid4().hex}_",
    }


@pytest.fixture
def run(tmp_path: Path, engines: dict[str, str]) -> Iterator[DevRun]:
    with closing(DevRun(tmp_path, variables=engines)) as run:
        yield run


class TestARunOnExternalEngines:
    def test_it_creates_what_is_missing_serves_and_leaves_the_engines_alone(
        self, run: DevRun, engines: dict[str, str]
    ) -> None:
        address = run.wait_until_ready()
        assert httpx.get(f"{address}/readyz").status_code == httpx.codes.OK
        client = boto3.client("dynamodb", endpoint_url=engines["DYNAMODB_ENDPOINT_URL"], region_name="us-east-1")
        created = {engines["TABLE_PREFIX"] + table.Meta.table_name for table in TABLES}
        assert created <= set(client.list_tables()["TableNames"])
        output = "".join(run.lines)
        assert f"kafka is external: {engines['KAFKA_BOOTSTRAP_SERVERS']}" in output
        assert "topics   | every topic exists" in output
        commands = [" ".join(process.cmdline()) for process in run.descendants()]
        assert [command for command in commands if "manage.py web" not in command and "fanout" not in command] == []

        run.terminate()
        assert run.wait() == 0
        assert run.descendants() == []
        with redis.Redis.from_url(engines["REDIS_URL"]) as connection:
            assert connection.ping()

    @pytest.mark.parametrize(
        ("name", "engine"),
        [("DYNAMODB_ENDPOINT_URL", "DynamoDB"), ("KAFKA_BOOTSTRAP_SERVERS", "Kafka"), ("REDIS_URL", "Redis")],
    )
    def test_an_engine_without_an_address_is_named_in_one_line(
        self, tmp_path: Path, engines: dict[str, str], name: str, engine: str
    ) -> None:
        with closing(DevRun(tmp_path, variables={**engines, name: "", "AWS_REGION": ""})) as run:
            assert run.wait() == 1
        assert run.refusal.startswith(f"Where is {engine}? Set {name}")
        assert run.refusal.count("\n") == 0

    def test_engines_of_an_unknown_kind_are_refused(self, tmp_path: Path) -> None:
        with closing(DevRun(tmp_path, variables={"ENGINES": "borrowed"})) as run:
            assert run.wait() != 0
        assert "--engines" in run.refusal
