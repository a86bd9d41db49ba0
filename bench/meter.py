"""What a measured window cost: CPU of every process, DynamoDB requests and items, Redis commands.

Read twice, right before and right after the window, in a thread of its own: two scrapes are all that measuring costs.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter

import psutil

from bench.figures import Figures

Readings = Mapping[str, float]
PER_MESSAGE = ("dynamodb_requests", "dynamodb_items", "redis_commands")
BUSY, STOLEN = "busy", "stolen"
DISTURBANCES = ("core_share_others", f"core_share_{STOLEN}")
DISTURBED = 0.2
"""Of a core: others who use more disturb the measurement."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A figure that is the quotient of two counters."""

    name: str
    total: str
    count: str
    factor: float = 1.0


MEANS = (
    Mean("messages_per_transaction", "committed_messages", "commits"),
    Mean("transaction_ms", "transaction_seconds", "transactions", 1000),
    Mean("kafka_ms", "announcing_seconds", "announcings", 1000),
    Mean("answer_ms", "answering_seconds", "answers", 1000),
)


@dataclass(slots=True)
class Meter:
    """Its figures are there once the window is over."""

    begun: float = 0.0
    ended: float = 0.0
    others: str = "others"
    """Who else uses the machine: the engines too, where somebody else runs them."""
    cpu: dict[str, float] = field(default_factory=dict)
    queued: dict[str, float] = field(default_factory=dict)
    """Seconds for which a process's first thread could have gone on, and had no processor."""
    machine: dict[str, float] = field(default_factory=dict)
    counters: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return self.ended - self.begun

    def covers(self, moment: float) -> bool:
        return self.begun <= moment < self.ended

    def figures(self, messages: int) -> Figures:
        """What each message cost, and how much of a core each process was busy.

        So are the others, who share the machine, and what its host has `stolen`: a run with much of either says little.
        Beside them what a message waits for: the store, Kafka, its answer, and each process for a processor.
        """
        figures: Figures = {}
        if messages:
            figures |= {f"cpu_ms_{name}": used * 1000 / messages for name, used in self.cpu.items()}
            figures |= {
                f"{name}_per_message": self.counters[name] / messages for name in PER_MESSAGE if name in self.counters
            }
        figures |= {
            mean.name: self.counters[mean.total] / count * mean.factor
            for mean in MEANS
            if (count := self.counters.get(mean.count, 0.0))
        }
        busy = {
            **self.cpu,
            self.others: max(0.0, self.machine[BUSY] - sum(self.cpu.values())),
            STOLEN: self.machine[STOLEN],
        }
        figures |= {f"core_share_{name}": used / self.seconds for name, used in busy.items()}
        return figures | {f"queued_share_{name}": waited / self.seconds for name, waited in self.queued.items()}


@asynccontextmanager
async def metering(
    cpu: Callable[[], Readings],
    counters: Callable[[], Readings],
    *,
    queued: Callable[[], Readings] = dict,
    others: str = "others",
) -> AsyncIterator[Meter]:
    """The body is the window. The scrapes lie outside the CPU readings, so that no process pays for them."""
    meter = Meter(others=others)
    counted = await asyncio.to_thread(counters)
    used, waited, whole, meter.begun = cpu(), queued(), _machine(), perf_counter()
    yield meter
    meter.cpu, meter.queued = _difference(cpu(), used), _difference(queued(), waited)
    meter.machine, meter.ended = _difference(_machine(), whole), perf_counter()
    meter.counters = _difference(await asyncio.to_thread(counters), counted)


def _machine() -> dict[str, float]:
    """Seconds of all cores together."""
    times = psutil.cpu_times()
    stolen = getattr(times, "steal", 0.0)
    return {BUSY: sum(times) - times.idle - getattr(times, "iowait", 0.0) - stolen, STOLEN: stolen}


def _difference(later: Readings, earlier: Readings) -> dict[str, float]:
    return {name: value - earlier.get(name, 0.0) for name, value in later.items()}
