"""Runs every workload as a rehearsal, with two client processes where it can be sharded.

A run with a message missing or out of order ends with an error. Speed is not asserted.
"""

import os
import re
import subprocess
import sys

import pytest

from bench.launch import EXTERNAL
from bench.results import RESULTS
from bench.targets import HEADLINES
from bench.workloads.registry import WORKLOADS
from engines.processes import PROJECT_ROOT

ROW = re.compile(r"\| (\w+) \| (\w+) \| -?\d")


PARTS = {"scale": {"W8", "W9", "R1", "R2", "R3", "R4"}, "abuse": {"G1"}}
"""Workloads that take as long as all others, which are plain."""
PARTS["plain"] = WORKLOADS.keys() - set.union(*PARTS.values())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("names", PARTS.values(), ids=PARTS.keys())
def test_every_workload_is_rehearsed_and_accounts_for_every_message(names: set[str]) -> None:
    before = set(RESULTS.iterdir())
    done = subprocess.run(
        [sys.executable, "-m", "bench", *sorted(names), "--rehearse", "--clients", "2"],
        cwd=PROJECT_ROOT,
        env={name: value for name, value in os.environ.items() if name not in EXTERNAL},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    figures = set(ROW.findall(done.stdout))
    assert {name for name, _ in figures} == names
    assert {(each.workload, each.figure) for each in HEADLINES if each.workload in names} <= figures
    assert set(RESULTS.iterdir()) == before, "a rehearsal keeps nothing"
