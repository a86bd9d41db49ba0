"""Runs W1–W3 on the peer and on Parley in turns."""

import gc
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import uvloop

from bench.comparison import Side, run_in_turns, table
from bench.deployment import Deployment, Report
from bench.figures import Figures
from bench.peers.archive import w3_archive
from bench.peers.deployment import PeerDeployment
from bench.peers.pairs import w1_pairs
from bench.peers.room import w2_room
from bench.results import Record
from bench.workloads import RunContext
from bench.workloads.registry import WORKLOADS

PEER, PARLEY = "ejabberd", "Parley"
PEER_WORKLOADS: dict[str, Callable[[PeerDeployment], Coroutine[Any, Any, Figures]]] = {
    "W1": w1_pairs,
    "W2": w2_room,
    "W3": w3_archive,
}


def compare(
    deployment: Deployment, peer: PeerDeployment, workloads: Sequence[str], *, runs: int, report: Report, output: Report
) -> None:
    def run_peer(workload: str) -> Figures:
        deployment.wait_until_idle()
        return _measure(PEER_WORKLOADS[workload](peer), idle_side=deployment.cpu)

    def run_parley(workload: str) -> Figures:
        peer.wait_until_idle()
        return _measure(WORKLOADS[workload](RunContext(deployment, report)), idle_side=peer.cpu)

    pairs = run_in_turns(Side(PEER, run_peer), Side(PARLEY, run_parley), workloads, runs=runs, report=report)
    output(table(pairs, PEER, PARLEY))
    settings = {"peer": peer.versions, "profile": peer.profile, "workloads": list(workloads), "runs": runs}
    document = {name: [{PEER: pair.baseline, PARLEY: pair.candidate} for pair in each] for name, each in pairs.items()}
    record = Record(deployment.engines, settings)
    record.keep("peer-" + "-".join(workloads), {"pairs": document}, None, report=report)


def _measure(workload: Coroutine[Any, Any, Figures], *, idle_side: Callable[[], Mapping[str, float]]) -> Figures:
    """Run the workload. `idle_side` reads the CPU of the other system, which is up but idle."""
    started, before = time.perf_counter(), _server_cpu(idle_side())
    figures = uvloop.run(workload)
    figures["core_share_resting"] = (_server_cpu(idle_side()) - before) / (time.perf_counter() - started)
    gc.collect()
    return figures


def _server_cpu(used: Mapping[str, float]) -> float:
    return sum(value for name, value in used.items() if name != "client")
