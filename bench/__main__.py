"""Measure Parley: throughput, latency and cost of the workloads, and how they grow and compare.

  python -m bench [W1 W2 …] [--runs 3] [--clients 1]      the workloads, all of them by default
  python -m bench [W1 W2 …] --rehearse                    a smoke test: small and short, keeps no results
  python -m bench growth [messages members connections]   W1–W3 as the data grows
  python -m bench peer [W1 W2 W3] [--runs 3] [--as …]     in turns with ejabberd on PostgreSQL
  python -m bench turns --base PATH [W1 …] [--runs 3]     in turns with another checkout of Parley

Prints a table. All write JSON, and most a picture, to bench/results/. The engines are embedded, or external
when DYNAMODB_ENDPOINT_URL, KAFKA_BOOTSTRAP_SERVERS and REDIS_URL are set.
"""

import argparse
import gc
import sys
from collections.abc import Iterable
from pathlib import Path

import uvloop

from bench import growth, revisions
from bench.deployment import Deployment
from bench.figures import Figures, format_number, summarise, table
from bench.launch import running
from bench.peers import comparison as peer_comparison
from bench.peers.deployment import running_peer
from bench.peers.packages import PeerMissing, find_packages
from bench.peers.profiles import Profile
from bench.picture import picture
from bench.results import Record
from bench.window import NOISE_FIGURES, NOISE_LIMIT
from bench.workloads import RunContext
from bench.workloads.registry import REHEARSAL_SIZES, REHEARSAL_SPEEDUP, WORKLOADS

CLIENT_LIMIT = 0.8
"""Share of a core. Above it, the client may be the bottleneck."""
MODES: dict[str, Iterable[str]] = {
    "workloads": WORKLOADS,
    "growth": growth.AXES,
    "peer": peer_comparison.PEER_WORKLOADS,
    "turns": WORKLOADS,
}
"""What each mode can measure."""


def main() -> None:
    options = _parse_options()
    # The client keeps what it receives until the window ends, so a collection would find no garbage.
    gc.disable()
    if options.mode == "turns":
        revisions.compare(options.base, options.names, runs=options.runs, report=report, output=output)
        return
    if options.mode == "peer":
        _compare_with_peer(options)
        return
    with running(report) as deployment:
        if options.mode == "growth":
            growth.run(deployment, options.names, report=report, output=output, clients=options.clients)
        else:
            _measure(deployment, options)


def _compare_with_peer(options: argparse.Namespace) -> None:
    try:
        packages = find_packages()
    except PeerMissing as missing:
        report(str(missing))
        sys.exit(2)
    with running(report) as deployment, running_peer(packages, options.profile, report) as peer:
        peer_comparison.compare(deployment, peer, options.names, runs=options.runs, report=report, output=output)


def _measure(deployment: Deployment, options: argparse.Namespace) -> None:
    runs: dict[str, list[Figures]] = {name: [] for name in options.names}
    speedup = REHEARSAL_SPEEDUP if options.rehearse else 1.0
    context = RunContext(deployment, report, clients=options.clients, speedup=speedup)
    for name in options.names:
        sizes = REHEARSAL_SIZES[name] if options.rehearse else {}
        rehearsed = "".join(f" (rehearsed with {size} {what})" for what, size in sizes.items())
        for number in range(1, options.runs + 1):
            report(f"{name}, run {number} of {options.runs}: {WORKLOADS[name].__doc__}{rehearsed}")
            figures = uvloop.run(WORKLOADS[name](context, **sizes))
            gc.collect()
            report("  " + ", ".join(f"{key} {format_number(value)}" for key, value in figures.items()))
            _warn(figures, options.clients)
            runs[name].append(figures)
    results = {name: summarise(each) for name, each in runs.items()}
    output(table(results))
    if options.rehearse:
        report("this was a rehearsal: the figures mean nothing, and none are kept")
        return
    record = Record(deployment.engines, {"workloads": options.names, "runs": options.runs, "clients": options.clients})
    document = {
        "results": {name: {key: spread.to_json() for key, spread in each.items()} for name, each in results.items()},
        "runs": runs,
    }
    name = "all" if options.names == list(WORKLOADS) else "-".join(options.names)
    subtitle = f"{record.subtitle}, {options.runs} run{'s' if options.runs > 1 else ''}"
    record.keep(name, document, picture(results, subtitle=subtitle), report=report)


def _warn(figures: Figures, clients: int) -> None:
    for name, value in figures.items():
        if name.endswith("core_share_client") and value > CLIENT_LIMIT * clients:
            report(f"  NOTE: {name} is {value:.2f}: the client may be the bottleneck (--clients {clients + 1}?)")
        if name.endswith(NOISE_FIGURES) and value > NOISE_LIMIT:
            report(f"  NOTE: {name} is {value:.2f}: the machine is busy with other work")


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog="workloads:\n"
        + "\n".join(f"  {name:5}  {work.__doc__}" for name, work in WORKLOADS.items())
        + "\n\nprofiles of the peer:\n"
        + "\n".join(f"  {profile:13}  {profile.description}" for profile in Profile),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="WORKLOAD", help="of those below (default: all), or growth …, peer …, turns …"
    )
    parser.add_argument("--runs", type=int, help="runs of each workload (default 3, and 1 to rehearse)")
    parser.add_argument("--rehearse", action="store_true", help="a smoke test: small and short, keeps no results")
    parser.add_argument(
        "--clients", type=int, default=1, help="client processes in W1, W2 and W5 (default 1; the others take one)"
    )
    parser.add_argument(
        "--as",
        dest="profile",
        choices=[profile.value for profile in Profile],
        metavar="PROFILE",
        help=f"the peer's profile, of those below (default {Profile.ACKNOWLEDGING})",
    )
    parser.add_argument("--base", type=Path, help="for turns: the checkout to compare with")
    options = parser.parse_intermixed_args()
    options.mode = options.names.pop(0) if options.names[:1] and options.names[0] in MODES else "workloads"
    known = {name.upper(): name for name in MODES[options.mode]}
    if unknown := [name for name in options.names if name.upper() not in known]:
        parser.error(f"{options.mode}: {', '.join(unknown)} is none of {', '.join(known.values())}")
    options.names = [known[name.upper()] for name in options.names] or list(known.values())
    if options.clients > 1 and options.mode in {"peer", "turns"}:
        parser.error(f"{options.mode} uses one client process")
    if options.profile and options.mode != "peer":
        parser.error("--as is for the peer: python -m bench peer")
    options.profile = Profile(options.profile or Profile.ACKNOWLEDGING)
    if (options.base is not None) != (options.mode == "turns"):
        parser.error("turns and --base go together: python -m bench turns --base PATH")
    if options.rehearse and options.mode != "workloads":
        parser.error("only the workloads can be rehearsed")
    options.runs = (1 if options.rehearse else 3) if options.runs is None else options.runs
    if options.runs < 1 or options.clients < 1:
        parser.error("runs and clients are at least 1")
    return options


def report(line: str) -> None:
    """Progress, to stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def output(line: str) -> None:
    """Results, to stdout."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
