"""Compares two systems on one machine by running each workload on both in turns.

The speed of a shared machine drifts, so only adjacent runs are comparable. Each run starts after a cool-down, and the
order within a pair alternates.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.deployment import Report
from bench.figures import Figures, format_number
from bench.targets import HEADLINES
from bench.window import NOISE_FIGURES, NOISE_LIMIT

COOL_DOWN = 10.0  # seconds
CPU = "cpu_ms_"
SERVERS, CLIENT = f"{CPU}servers", f"{CPU}client"
MORE_FIGURES = {
    "W1": ("delivery_p50_ms", "delivery_p99_ms"),
    "W2": ("last_receiver_p99_ms",),
    "W3": ("page_p99_ms",),
    "W5": ("ack_p99_ms",),
    "W7": ("first_receiver_p99_ms",),
    "W9": ("others_delivery_p99_ms",),
    **dict.fromkeys(("R1", "R2", "R3", "R4"), ("request_p50_ms",)),
    "STORM": ("current_p99_s",),
}
"""Compared besides the headlines."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two systems. `run` runs a workload once."""

    name: str
    run: Callable[[str], Figures]


@dataclass(frozen=True, slots=True)
class RunPair:
    """Two adjacent runs of a workload, one on each side."""

    baseline: Figures
    candidate: Figures

    def ratio(self, figure: str) -> float:
        baseline = self.baseline[figure]
        return self.candidate[figure] / baseline if baseline else float("nan")


def run_in_turns(
    baseline: Side, candidate: Side, workloads: Sequence[str], *, runs: int, report: Report
) -> dict[str, list[RunPair]]:
    def run_pair(workload: str, number: int) -> RunPair:
        figures: dict[Side, Figures] = {}
        for side in (baseline, candidate) if number % 2 else (candidate, baseline):
            time.sleep(COOL_DOWN)
            figures[side] = _with_server_cpu(side.run(workload))
            _report_run(f"{workload}, pair {number}, {side.name}", workload, figures[side], report)
        return RunPair(figures[baseline], figures[candidate])

    return {workload: [run_pair(workload, number) for number in range(1, runs + 1)] for workload in workloads}


def table(pairs: Mapping[str, Sequence[RunPair]], baseline: str, candidate: str) -> str:
    """Each figure of each pair, the ratios, and the medians of all three columns."""
    lines = [
        f"| Workload | Figure | {baseline} | {candidate} | {candidate} / {baseline} | Medians |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for workload, each in pairs.items():
        for figure in (*_main_figures(workload), SERVERS, CLIENT):
            if not all(figure in pair.baseline and figure in pair.candidate for pair in each):
                continue
            columns = (
                [pair.baseline[figure] for pair in each],
                [pair.candidate[figure] for pair in each],
                [pair.ratio(figure) for pair in each],
            )
            cells = [", ".join(map(format_number, column)) for column in columns]
            old, new, ratio = (format_number(statistics.median(column)) for column in columns)
            lines.append(f"| {workload} | {figure} | {' | '.join(cells)} | {old}, {new}: {ratio} |")
    return "\n".join(lines)


def _main_figures(workload: str) -> list[str]:
    headlines = [headline.figure for headline in HEADLINES if headline.workload == workload]
    return [*headlines, *MORE_FIGURES.get(workload, ())]


def _with_server_cpu(figures: Figures) -> Figures:
    """Add the CPU per message of all processes but the client's."""
    costs = [value for name, value in figures.items() if name.startswith(CPU) and name != CLIENT]
    return figures | ({SERVERS: sum(costs)} if costs else {})


def _report_run(title: str, workload: str, figures: Figures, report: Report) -> None:
    names = (*_main_figures(workload), SERVERS, CLIENT, "core_share_resting", *NOISE_FIGURES)
    report(f"{title}: " + ", ".join(f"{name} {format_number(figures[name])}" for name in names if name in figures))
    for name in NOISE_FIGURES:
        if figures.get(name, 0.0) > NOISE_LIMIT:
            report(f"  NOTE: {name} is {figures[name]:.2f}: the machine is busy, do not rely on this pair")
