"""Parley and its peer in turns on one machine: a run of the peer's, one of ours, side by side in a table.

A machine that others share changes its speed by the minute: only runs that follow each other say who is ahead. And one
that has just been busy is slower for a while: each run begins after a rest, and the first of a pair is now one, now the
other.
"""

import gc
import statistics
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from bench.figures import Figures, shown
from bench.meter import DISTURBANCES, DISTURBED
from bench.peers.archive import w3_archive
from bench.peers.pairs import w1_pairs
from bench.peers.room import w2_room
from bench.peers.stage import PeerStage
from bench.results import Record
from bench.stage import Report, Stage
from bench.workloads import Setting
from bench.workloads.listed import WORKLOADS

PEER, PARLEY = "ejabberd", "Parley"
REST = 10.0
COST = "cpu_ms_"
SERVERS, CLIENT = f"{COST}servers", f"{COST}client"
RESTING = "core_share_resting"
Play = Callable[[PeerStage], Coroutine[Any, Any, Figures]]


@dataclass(frozen=True, slots=True)
class Match:
    """A workload on the peer, and the figures of it worth a line."""

    play: Play
    figures: tuple[str, ...]


MATCHES = {
    "W1": Match(w1_pairs, ("delivered_per_s", "delivery_p50_ms", "delivery_p99_ms")),
    "W2": Match(w2_room, ("accepted_per_s", "deliveries_per_s", "last_receiver_p99_ms")),
    "W3": Match(w3_archive, ("messages_per_s", "page_p99_ms")),
}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs, one right after the other."""

    peer: Figures
    parley: Figures

    def ratio(self, figure: str) -> float:
        return self.parley[figure] / self.peer[figure]


def run(stage: Stage, peer: PeerStage, workloads: Sequence[str], *, runs: int, report: Report, say: Report) -> None:
    pairs = {name: [_pair(stage, peer, name, number, report) for number in range(1, runs + 1)] for name in workloads}
    say(table(pairs))
    record = Record(
        stage.engines, {"peer": peer.versions, "manner": peer.manner, "workloads": list(workloads), "runs": runs}
    )
    document = {
        "pairs": {name: [{PEER: pair.peer, PARLEY: pair.parley} for pair in each] for name, each in pairs.items()},
    }
    for path in record.keep("peer-" + "-".join(workloads), document, None):
        report(f"kept in {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name}")


def _pair(stage: Stage, peer: PeerStage, name: str, number: int, report: Report) -> Pair:
    def theirs() -> Figures:
        stage.settle()
        return _play(MATCHES[name].play(peer), resting=stage.cpu)

    def ours() -> Figures:
        peer.settle()
        return _play(WORKLOADS[name](Setting(stage, report)), resting=peer.cpu)

    sides = {PEER: theirs, PARLEY: ours}
    played: dict[str, Figures] = {}
    for side in (PEER, PARLEY) if number % 2 else (PARLEY, PEER):
        time.sleep(REST)
        played[side] = sides[side]()
        _tell(f"{name}, turn {number}, {side}", name, played[side], report)
    return Pair(played[PEER], played[PARLEY])


def _play(playing: Coroutine[Any, Any, Figures], *, resting: Callable[[], dict[str, float]]) -> Figures:
    """`resting` is what the other side has used so far: even at rest it takes a little from who plays."""
    begun, before = time.perf_counter(), _servers(resting())
    figures = uvloop.run(playing)
    figures[RESTING] = (_servers(resting()) - before) / (time.perf_counter() - begun)
    costs = {name.removeprefix(COST): value for name, value in figures.items() if name.startswith(COST)}
    figures[SERVERS] = _servers(costs)
    gc.collect()
    return figures


def _servers(used: Mapping[str, float]) -> float:
    return sum(value for name, value in used.items() if name != "client")


def _tell(title: str, workload: str, figures: Figures, report: Report) -> None:
    told = (*MATCHES[workload].figures, SERVERS, CLIENT, RESTING, *DISTURBANCES)
    report(f"{title}: " + ", ".join(f"{name} {shown(figures[name])}" for name in told if name in figures))
    for name in DISTURBANCES:
        if figures.get(name, 0.0) > DISTURBED:
            report(f"  NOTE: {name} is {figures[name]:.2f}: somebody else uses this machine, and this pair says little")


def table(pairs: dict[str, list[Pair]]) -> str:
    """Pair by pair, with what Parley has by what the peer has, and the medians of all three."""
    lines = [
        f"| Workload | Figure | {PEER} | {PARLEY} | {PARLEY} by {PEER} | Medians |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for workload, each in pairs.items():
        for figure in (*MATCHES[workload].figures, SERVERS, CLIENT):
            columns = (
                [pair.peer[figure] for pair in each],
                [pair.parley[figure] for pair in each],
                [pair.ratio(figure) for pair in each],
            )
            cells = [", ".join(map(shown, column)) for column in columns]
            theirs, ours, ratio = (shown(statistics.median(column)) for column in columns)
            lines.append(f"| {workload} | {figure} | {' | '.join(cells)} | {theirs}, {ours}: {ratio} |")
    return "\n".join(lines)
