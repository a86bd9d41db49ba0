"""`python -m bench [W1 W2 …] [--runs 3]`: run the workloads, print a table, keep the figures as JSON."""

import argparse
import json
import os
import platform
import statistics
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from bench.stage import Report, Stage, running
from bench.workloads import WORKLOADS, Figures

RESULTS = Path(__file__).parent / "results"


def measured(stage: Stage, name: str, report: Report) -> Figures:
    """A workload's figures, and what each message cost the processes and the engines."""
    cpu, counters = stage.cpu(), stage.counters()
    figures = uvloop.run(WORKLOADS[name](stage, report))
    messages = figures.pop("messages", 0)
    if messages:
        spent = stage.cpu()
        figures |= {f"cpu_ms_{part}": (spent[part] - cpu[part]) * 1000 / messages for part in spent}
        counted = stage.counters()
        figures |= {f"{part}_per_message": (counted[part] - counters[part]) / messages for part in counted}
    return figures


def median(runs: list[Figures]) -> dict[str, dict[str, float]]:
    return {
        name: {
            "median": statistics.median(run[name] for run in runs),
            "least": min(run[name] for run in runs),
            "most": max(run[name] for run in runs),
        }
        for name in runs[0]
    }


def table(results: dict[str, dict[str, dict[str, float]]]) -> str:
    lines = ["| Workload | Figure | Median | Least–most |", "| --- | --- | ---: | ---: |"]
    for workload, figures in results.items():
        for name, spread in figures.items():
            lines.append(
                f"| {workload} | {name} | {spread['median']:,.2f} | {spread['least']:,.2f}–{spread['most']:,.2f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("workloads", nargs="*", default=[], help=f"of {', '.join(WORKLOADS)} (default: all)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each workload (default 3)")
    options = parser.parse_args()
    chosen = [name.upper() for name in options.workloads] or list(WORKLOADS)
    if unknown := set(chosen) - WORKLOADS.keys():
        parser.error(f"no such workload: {', '.join(sorted(unknown))}")
    report = Report()
    results = {}
    with running(report) as stage:
        for name in chosen:
            runs = []
            for number in range(1, options.runs + 1):
                report(f"{name}, run {number} of {options.runs}")
                runs.append(measured(stage, name, report))
                report(f"  {json.dumps({key: round(value, 2) for key, value in runs[-1].items()})}")
            results[name] = median(runs)
    now = datetime.now(UTC)
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now:%Y-%m-%dT%H%M%S}.json"
    path.write_text(json.dumps({"at": now.isoformat(), **machine, "results": results}, indent=2) + "\n")
    print(table(results))  # noqa: T201 - the command's output
    report(f"kept in {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name}")


if __name__ == "__main__":
    main()
