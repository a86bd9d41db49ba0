"""The workloads: each creates its users and chats, runs its clients and returns the figures.

Every message is checked: a run with one missing or out of order raises `InvalidRun` and has no figures.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from bench.deployment import Deployment, Report
from bench.figures import Figures


@dataclass(frozen=True, slots=True)
class RunContext:
    """`clients`: the number of client processes, for the workloads that can be sharded."""

    deployment: Deployment
    report: Report
    clients: int = 1
    speedup: float = 1.0
    """Divides every duration; more than one in a rehearsal."""

    def seconds(self, duration: float) -> float:
        return duration / self.speedup


Workload = Callable[..., Coroutine[Any, Any, Figures]]
"""Takes the context, and sizes as keyword arguments of its own."""
