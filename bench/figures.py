"""Figures of a run and of several: percentiles, medians with their spread, and their table."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over several runs."""

    median: float
    least: float
    most: float

    def to_json(self) -> dict[str, float]:
        return asdict(self)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def latency_figures(name: str, values: Sequence[float]) -> Figures:
    """p50 and p99 of `values` in seconds; no figures if there are none."""
    if not values:
        return {}
    return {f"{name}_p50_ms": percentile(values, 0.5) * 1000, f"{name}_p99_ms": percentile(values, 0.99) * 1000}


def summarise(runs: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    """Each figure's spread over the runs that have it: a run without successful sends has fewer figures."""
    names = dict.fromkeys(name for run in runs for name in run)
    by_name = {name: [run[name] for run in runs if name in run] for name in names}
    return {name: Spread(statistics.median(values), min(values), max(values)) for name, values in by_name.items()}


def format_number(value: float) -> str:
    """Three significant digits, or a whole number."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(results: Mapping[str, Mapping[str, Spread]]) -> str:
    lines = ["| Workload | Figure | Median | Least–most |", "| --- | --- | ---: | ---: |"]
    for workload, figures in results.items():
        for name, spread in figures.items():
            median, least, most = map(format_number, (spread.median, spread.least, spread.most))
            lines.append(f"| {workload} | {name} | {median} | {least}–{most} |")
    return "\n".join(lines)
