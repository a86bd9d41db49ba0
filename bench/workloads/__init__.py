"""The workloads of the quality document, closed loops and open ones: each makes its people, plays, and returns figures.

None of them believes the server: every message is accounted for, and a run with a wrong one has no figures.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from bench.figures import Figures
from bench.stage import Report, Stage


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run is played on. `clients`: processes that play the client side, where a workload can be split."""

    stage: Stage
    report: Report
    clients: int = 1
    haste: float = 1.0
    """Windows are so many times shorter: more than one in a rehearsal."""

    def seconds(self, long: float) -> float:
        return long / self.haste


Workload = Callable[..., Coroutine[Any, Any, Figures]]
"""Takes the setting, and how large it is by names of its own."""
