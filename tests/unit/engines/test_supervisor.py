"""A run plan: preparations, then services, until a stop signal or a failure."""

import io
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from engines.console import Console
from engines.errors import ChildExited, ServiceFailed
from engines.supervisor import Preparation, RunPlan, Service, Supervisor

SLEEP = ("sleep", "60")
STOP_PARENT = ("sh", "-c", "echo stopping $STOPPED; kill -TERM $PPID; sleep 60")


def run(output: io.StringIO, *, preparations: Sequence[Preparation] = (), services: Sequence[Service] = ()) -> None:
    plan = RunPlan(
        name="run",
        directory=Path(),
        ready_line="ready",
        preparations=preparations,
        services=services,
        environment={"STOPPED": "everything"},
    )
    Supervisor(plan, Console(output)).run()


def test_a_run_ends_after_a_stop_signal_with_prefixed_lines() -> None:
    output = io.StringIO()
    prepare = Preparation("prepare", ("echo", "prepared"))
    run(output, preparations=[prepare], services=[Service("web-1", SLEEP), Service("web-2", STOP_PARENT)])
    lines = output.getvalue().splitlines()
    assert lines[0] == "prepare  | prepared"
    assert "web-2    | stopping everything" in lines
    assert "ready" in lines
    assert "run      | Stopping; press Ctrl-C again to stop at once." in lines


def test_a_service_that_exits_is_named() -> None:
    services = [Service("web-1", SLEEP), Service("web-2", ("sh", "-c", "exit 3"))]
    with pytest.raises(ChildExited, match="web-2 ended with exit status 3, so everything was stopped"):
        run(io.StringIO(), services=services)


class StopAfter(io.StringIO):
    """Output that sends this process a stop signal once `line` was written."""

    def __init__(self, line: str) -> None:
        super().__init__()
        self._line = line

    def write(self, text: str) -> int:
        if self._line in text:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().write(text)


def test_a_service_that_exits_while_another_of_its_kind_runs_is_named_and_the_run_goes_on() -> None:
    line = "run      | web-1 ended with exit status 3; the others of its kind go on without it."
    output = StopAfter(line)
    run(output, services=[Service("web-1", ("sh", "-c", "exit 3"), kind="web"), Service("web-2", SLEEP, kind="web")])
    assert line in output.getvalue().splitlines()


def test_the_last_service_of_its_kind_ends_the_run() -> None:
    services = [
        Service("web-1", ("sh", "-c", "exit 3"), kind="web"),
        Service("web-2", ("sh", "-c", "exit 3"), kind="web"),
        Service("fanout", SLEEP, kind="fanout"),
    ]
    with pytest.raises(ChildExited, match=r"web-. ended with exit status 3, so everything was stopped"):
        run(io.StringIO(), services=services)


def test_nothing_starts_after_a_failed_preparation() -> None:
    output = io.StringIO()
    with pytest.raises(ServiceFailed, match="prepare ended with exit status 1"):
        run(output, preparations=[Preparation("prepare", ("false",))], services=[Service("web", ("echo", "started"))])
    assert output.getvalue() == ""


def test_a_service_has_its_own_variables_besides_those_of_the_plan() -> None:
    output = io.StringIO()
    show = ("sh", "-c", "echo $STOPPED $OWN; kill -TERM $PPID; sleep 60")
    run(output, services=[Service("web-1", show, environment={"OWN": "first"}), Service("web-2", SLEEP)])
    assert "web-1    | everything first" in output.getvalue().splitlines()
