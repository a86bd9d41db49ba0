"""Compares two revisions of Parley in turns: each run is `python -m bench <workload> --runs 1` in its own checkout.

The result names both revisions and has the figures of every run.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.comparison import Side, run_in_turns, table
from bench.deployment import Report
from bench.figures import Figures
from bench.launch import uses_external_engines
from bench.results import Record, revision
from engines.processes import PROJECT_ROOT

OLD, NEW = "old", "new"


def compare(base: Path, workloads: Sequence[str], *, runs: int, report: Report, output: Report) -> None:
    """`base` is the checkout of the old revision; the new one is this."""
    old, new = Side(OLD, partial(run_workload, base.absolute())), Side(NEW, partial(run_workload, PROJECT_ROOT))
    revisions = {OLD: revision(base.absolute()), NEW: revision(PROJECT_ROOT)}
    pairs = run_in_turns(old, new, workloads, runs=runs, report=report)
    output(table(pairs, OLD, NEW))
    document = {name: [{OLD: pair.baseline, NEW: pair.candidate} for pair in each] for name, each in pairs.items()}
    engines = "external" if uses_external_engines() else "embedded"
    record = Record(engines, {"revisions": revisions, "workloads": list(workloads), "runs": runs})
    record.keep("turns-" + "-".join(workloads), {"pairs": document}, None, report=report)


def run_workload(checkout: Path, workload: str) -> Figures:
    """Run the workload once and remove its result files. Raises `SystemExit` if it fails."""
    results = checkout / "bench" / "results"
    before = set(results.glob("*"))
    command = (str(find_interpreter(checkout)), "-m", "bench", workload, "--runs", "1")
    done = subprocess.run(command, cwd=checkout, stdout=subprocess.DEVNULL, check=False)  # noqa: S603
    written = set(results.glob(f"*-{workload}.*")) - before
    documents = [json.loads(path.read_text()) for path in written if path.suffix == ".json"]
    for path in written:
        path.unlink()
    if done.returncode != 0 or len(documents) != 1:
        raise SystemExit(f"{workload} failed in {checkout} with status {done.returncode}")
    figures: Figures = documents[0]["runs"][workload][0]
    return figures


def find_interpreter(checkout: Path) -> Path:
    """The checkout's own virtual environment, else this interpreter."""
    own = checkout / ".venv" / "bin" / "python"
    return own if own.exists() else Path(sys.executable)
