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


@pytest.mark.timeout(300)
def test_every_workload_is_rehearsed_and_accounts_for_every_message() -> None:
    before = set(RESULTS.iterdir())
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--rehearse", "--clients", "2"],
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
    assert {name for name, _ in figures} == WORKLOADS.keys()
    assert {(headline.workload, headline.figure) for headline in HEADLINES} <= figures
    assert set(RESULTS.iterdir()) == before, "a rehearsal keeps nothing"
