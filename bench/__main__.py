"""Measure Parley: workloads with their costs, how cost grows, a reconnect storm.

  python -m bench [W1 W2 …] [--runs 3] [--clients 1]      the workloads, all of them by default
  python -m bench [W1 W2 …] --rehearse                    the same, small and short: does it all work here?
  python -m bench growth [messages members connections]   W1–W3 as things get larger
  python -m bench storm                                   a thousand clients reconnect at once
  python -m bench peer [W1 W2 W3] [--runs 3] [--as …]     beside ejabberd on PostgreSQL, in turns
  python -m bench.ingest                                  the ingest path alone, in one process

Each prints a table and leaves JSON, and most a picture, in bench/results/. The engines are embedded ones, or those of
DYNAMODB_ENDPOINT_URL, KAFKA_BOOTSTRAP_SERVERS and REDIS_URL when all three are set.
"""

import argparse
import gc
import sys
from pathlib import Path

import uvloop

from bench import growth
from bench.figures import Figures, Spread, shown, summarise, table
from bench.launch import running
from bench.meter import DISTURBANCES, DISTURBED
from bench.peers import turns
from bench.peers.manners import Manner
from bench.peers.packages import PeerMissing, find_packages
from bench.peers.stage import running_peer
from bench.picture import picture
from bench.results import Record
from bench.stage import Stage
from bench.workloads import Setting
from bench.workloads.listed import HASTE, REHEARSED, WORKLOADS

BUSY = 0.8
"""Of a core: a client that uses more may be what is measured."""


def main() -> None:
    options = _options()
    # The client keeps what it receives until the window is over: nothing of it is garbage before.
    gc.disable()
    if options.peer:
        _compare(options)
        return
    with running(report) as stage:
        if options.growth:
            growth.run(stage, options.growth, report=report, say=say, clients=options.clients)
        else:
            _measure(stage, options)


def _compare(options: argparse.Namespace) -> None:
    try:
        packages = find_packages()
    except PeerMissing as missing:
        report(str(missing))
        sys.exit(2)
    with running(report) as stage, running_peer(packages, options.manner, report) as peer:
        turns.run(stage, peer, options.peer, runs=options.runs, report=report, say=say)


def _measure(stage: Stage, options: argparse.Namespace) -> None:
    runs: dict[str, list[Figures]] = {name: [] for name in options.workloads}
    setting = Setting(stage, report, clients=options.clients, haste=HASTE if options.rehearse else 1.0)
    for name in options.workloads:
        sizes = REHEARSED[name] if options.rehearse else {}
        smaller = "".join(f" (rehearsed with {size} {what})" for what, size in sizes.items())
        for number in range(1, options.runs + 1):
            report(f"{name}, run {number} of {options.runs}: {WORKLOADS[name].__doc__}{smaller}")
            figures = uvloop.run(WORKLOADS[name](setting, **sizes))
            gc.collect()
            report("  " + ", ".join(f"{key} {shown(value)}" for key, value in figures.items()))
            _warn(figures, options.clients)
            runs[name].append(figures)
    results = {name: summarise(each) for name, each in runs.items()}
    say(table(results))
    if options.rehearse:
        report("this was a rehearsal: the figures mean nothing, and none are kept")
        return
    _keep(stage, options, runs, results)


def _keep(
    stage: Stage,
    options: argparse.Namespace,
    runs: dict[str, list[Figures]],
    results: dict[str, dict[str, Spread]],
) -> None:
    settings = {"workloads": options.workloads, "runs": options.runs, "clients": options.clients}
    record = Record(stage.engines, settings)
    document = {
        "results": {name: {key: spread.to_json() for key, spread in each.items()} for name, each in results.items()},
        "runs": runs,
    }
    name = "all" if options.workloads == list(WORKLOADS) else "-".join(options.workloads)
    subtitle = f"{record.subtitle}, {options.runs} run{'s' if options.runs > 1 else ''}"
    for path in record.keep(name, document, picture(results, subtitle=subtitle)):
        report(f"kept in {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name}")


def _warn(figures: Figures, clients: int) -> None:
    for name, value in figures.items():
        if name.endswith("core_share_client") and value > BUSY * clients:
            report(f"  NOTE: {name} is {value:.2f}: the client may be the bottleneck (--clients {clients + 1}?)")
        if name.endswith(DISTURBANCES) and value > DISTURBED:
            report(f"  NOTE: {name} is {value:.2f}: somebody else uses this machine")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog="workloads:\n"
        + "\n".join(f"  {name:5}  {work.__doc__}" for name, work in WORKLOADS.items())
        + "\n\nthe peer:\n"
        + "\n".join(f"  {manner:13}  {manner.meaning}" for manner in Manner),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "what", nargs="*", metavar="WORKLOAD", help="of those below (default: all), or growth …, or peer …"
    )
    parser.add_argument("--runs", type=int, help="runs of each workload (default 3, and 1 to rehearse)")
    parser.add_argument("--rehearse", action="store_true", help="small and short: does it all work here? Keeps nothing")
    parser.add_argument(
        "--clients", type=int, default=1, help="client processes in W1, W2 and W5 (default 1; the others take one)"
    )
    parser.add_argument(
        "--as",
        dest="manner",
        choices=[manner.value for manner in Manner],
        metavar="MANNER",
        help=f"how the peer is set up, of those below (default {Manner.ACKNOWLEDGING})",
    )
    options = parser.parse_args()
    chosen = options.what
    options.growth = []
    if chosen[:1] == ["growth"]:
        options.growth = chosen[1:] or list(growth.AXES)
        if unknown := set(options.growth) - set(growth.AXES):
            parser.error(f"growth of what? {', '.join(sorted(unknown))} is none of {', '.join(growth.AXES)}")
    options.peer = []
    if chosen[:1] == ["peer"]:
        options.peer = [name.upper() for name in chosen[1:]] or list(turns.MATCHES)
        if unknown := set(options.peer) - turns.MATCHES.keys():
            parser.error(f"the peer plays {', '.join(turns.MATCHES)}, not {', '.join(sorted(unknown))}")
        if options.clients > 1:
            parser.error("the peer is played by one client process")
    elif options.manner:
        parser.error("--as is for the peer: python -m bench peer")
    options.manner = Manner(options.manner or Manner.ACKNOWLEDGING)
    options.workloads = [name.upper() for name in chosen] or list(WORKLOADS)
    if not (options.growth or options.peer) and (unknown := set(options.workloads) - WORKLOADS.keys()):
        parser.error(f"no such workload: {', '.join(sorted(unknown))}")
    if options.rehearse and (options.growth or options.peer):
        parser.error("only the workloads can be rehearsed")
    options.runs = (1 if options.rehearse else 3) if options.runs is None else options.runs
    if options.runs < 1 or options.clients < 1:
        parser.error("runs and clients are at least 1")
    return options


def report(line: str) -> None:
    """Progress for whoever waits."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
