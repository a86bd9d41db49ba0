"""`manage.py dev` starts, stops and fails as a whole, and explains a failure."""

import re
import socket
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Protocol

import boto3
import httpx
import psutil
import pytest
from mypy_boto3_dynamodb import DynamoDBClient

from config.settings.capacity import TABLES
from tests.e2e.dev_run import DevRun, eventually

CONNECTIONS = 64


class StartDev(Protocol):
    def __call__(self, data_dir: Path, *options: str) -> DevRun: ...


def dynamodb_of(run: DevRun) -> DynamoDBClient:
    return boto3.client(
        "dynamodb",
        endpoint_url=run.engines()["dynamodb"]["endpoint"],
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )


class TestAReadyRun:
    def test_it_answers_where_the_ready_line_says(self, ready_dev: DevRun) -> None:
        assert httpx.get(f"{ready_dev.wait_until_ready()}/readyz").status_code == httpx.codes.OK

    def test_it_writes_where_its_engines_are(self, ready_dev: DevRun) -> None:
        assert set(ready_dev.engines()) == {"dynamodb", "kafka", "redis"}
        assert set(dynamodb_of(ready_dev).list_tables()["TableNames"]) == set(TABLES)
        for name, engine in ready_dev.engines().items():
            assert any(f"{name} is ready on {engine['endpoint']}" in line for line in ready_dev.lines)

    def test_every_line_names_its_process_except_the_ready_line(self, ready_dev: DevRun) -> None:
        others = [
            line for line in ready_dev.lines if not re.match(r"(dev|dynamodb|kafka|redis|tables|web|fanout) +\| ", line)
        ]
        assert others == [f"Parley is ready on {ready_dev.wait_until_ready()}\n"]

    def test_a_second_run_on_its_data_directory_is_refused(self, ready_dev: DevRun) -> None:
        with closing(DevRun(ready_dev.data_dir)) as second:
            assert second.wait() == 1
        assert second.refusal == (
            f"The data directory {ready_dev.data_dir} is in use by another run (process {ready_dev.pid}). "
            "Stop that run, or choose another directory with --data-dir."
        )
        assert ready_dev.engines()

    def test_a_second_run_on_its_port_is_refused(self, ready_dev: DevRun, tmp_path: Path) -> None:
        port = httpx.URL(ready_dev.wait_until_ready()).port or 0
        with closing(DevRun(tmp_path, port=port)) as second:
            assert second.wait() == 1
        assert second.refusal == f"Port {port} is in use by another process. Choose another port with --port."


class TestARefusedRun:
    def test_a_data_directory_that_cannot_be_created_is_named(self, start_dev: StartDev, tmp_path: Path) -> None:
        occupied = tmp_path / "occupied"
        occupied.touch()
        run = start_dev(occupied / "data")
        assert run.wait() == 1
        assert run.refusal == (
            f"The data directory {occupied / 'data'} cannot be used: Not a directory. "
            "Make it writable, or choose another directory with --data-dir."
        )

    def test_an_engine_that_cannot_start_is_named_and_the_others_stop(
        self, start_dev: StartDev, tmp_path: Path
    ) -> None:
        (tmp_path / "dynamolite.sqlite").write_text("no database")
        run = start_dev(tmp_path)
        assert run.wait() == 1
        assert run.refusal.startswith(
            f"dynamodb ended with exit status 1 before it was ready: {tmp_path / 'dynamolite.sqlite'} cannot be opened"
        )
        assert run.descendants() == []


class TestStopping:
    def test_the_next_run_has_the_data_and_no_process_is_left(self, start_dev: StartDev, tmp_path: Path) -> None:
        first = start_dev(tmp_path)
        first.wait_until_ready()
        dynamodb_of(first).put_item(TableName="users", Item={"user_id": {"S": "user_1"}, "display_name": {"S": "Ada"}})
        first.terminate()
        assert first.wait() == 0
        assert first.descendants() == []
        assert not (tmp_path / "engines.json").exists()

        second = start_dev(tmp_path)
        second.wait_until_ready()
        found = dynamodb_of(second).get_item(TableName="users", Key={"user_id": {"S": "user_1"}})
        assert found["Item"]["display_name"] == {"S": "Ada"}
        second.press_ctrl_c()
        assert second.wait() == 0
        assert second.descendants() == []
        assert first.refusal == second.refusal == ""

    def test_a_run_can_be_stopped_before_it_is_ready(self, start_dev: StartDev, tmp_path: Path) -> None:
        run = start_dev(tmp_path)
        run.wait_for_line("redis is ready")
        run.terminate()
        assert run.wait() == 0
        assert run.descendants() == []


class TestAChildThatExits:
    @pytest.mark.parametrize("name", ["redis", "web"])
    def test_a_killed_child_is_named_and_everything_stops(self, start_dev: StartDev, tmp_path: Path, name: str) -> None:
        run = start_dev(tmp_path)
        run.wait_until_ready()
        run.child(name).kill()
        assert run.wait() == 1
        assert run.refusal == f"{name} was killed by SIGKILL, so everything was stopped; see its log lines above."
        assert run.descendants() == []

    def test_children_do_not_outlive_a_killed_run(self, start_dev: StartDev, tmp_path: Path) -> None:
        run = start_dev(tmp_path)
        run.wait_until_ready()
        assert len(run.descendants()) >= 4
        run.kill()
        assert run.wait_until_no_process_is_left()


class TestSeveralProcesses:
    """Behind one port: `make run WEB=2 FANOUT=2`."""

    def test_they_share_the_connections_and_one_that_dies_is_named_and_the_last_ends_the_run(
        self, start_dev: StartDev, tmp_path: Path
    ) -> None:
        run = start_dev(tmp_path, "--web", "2", "--fanout", "2")
        address = httpx.URL(run.wait_until_ready())
        own_addresses = [run.addresses()[name][0] for name in ("web-1", "web-2")]
        assert len({str(address), *own_addresses}) == 3
        for each in (str(address), *own_addresses):
            assert httpx.get(f"{each}/readyz").status_code == httpx.codes.OK
        assert sum("fanout" in process.cmdline() for process in run.descendants()) == 2

        with ExitStack() as stack:
            for _ in range(CONNECTIONS):
                stack.enter_context(socket.create_connection((address.host, address.port or 0)))
            shares = eventually(
                lambda: found if sum(found := accepted(run, address.port)) == CONNECTIONS else None,
                within=10,
                what="the acceptance of all connections",
            )
        assert min(shares) > 0

        run.child("web-2").kill()
        run.wait_for_line("web-2 was killed by SIGKILL; the others of its kind go on without it.")
        assert httpx.get(f"{address}/readyz").status_code == httpx.codes.OK
        run.child("web-1").kill()
        assert run.wait() == 1
        assert run.refusal == "web-1 was killed by SIGKILL, so everything was stopped; see its log lines above."
        assert run.descendants() == []

    def test_one_that_stops_gets_no_new_connection(self, start_dev: StartDev, tmp_path: Path) -> None:
        run = start_dev(tmp_path, "--web", "2")
        address = httpx.URL(run.wait_until_ready())
        staying = run.child("web-1")
        run.child("web-2").terminate()
        run.wait_for_line("the port is left to the processes that share it")
        with ExitStack() as stack:
            for _ in range(CONNECTIONS):
                stack.enter_context(socket.create_connection((address.host, address.port or 0)))
            eventually(
                lambda: True if held(staying, address.port) == CONNECTIONS else None,
                within=10,
                what="the acceptance of all connections by the process that stays",
            )
        run.terminate()
        assert run.wait() == 0

    def test_a_number_that_is_none_is_refused(self, start_dev: StartDev, tmp_path: Path) -> None:
        run = start_dev(tmp_path, "--web", "many")
        assert run.wait() == 2
        assert "argument --web: a number from 1 to 64 is needed, not 'many'" in run.refusal


def accepted(run: DevRun, port: int | None) -> list[int]:
    """How many connections to `port` each `web` process holds."""
    return [held(run.child(name), port) for name in ("web-1", "web-2")]


def held(process: psutil.Process, port: int | None) -> int:
    return sum(each.status == psutil.CONN_ESTABLISHED and each.laddr.port == port for each in process.net_connections())
