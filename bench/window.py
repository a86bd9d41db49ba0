"""The measured window of a run and its cost: CPU of every process, DynamoDB requests and items, Redis commands."""

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
NOISE_FIGURES = ("core_share_others", f"core_share_{STOLEN}")
NOISE_LIMIT = 0.2
"""Share of a core. Above it, other load on the machine distorts the measurement."""


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
    Mean("kafka_ms", "publish_seconds", "publishes", 1000),
    Mean("answer_ms", "send_seconds", "sends", 1000),
)


@dataclass(slots=True)
class Window:
    """Filled in when the window ends."""

    started: float = 0.0
    ended: float = 0.0
    others: str = "others"
    """The name for all other load on the machine, which includes external engines."""
    cpu: dict[str, float] = field(default_factory=dict)
    run_queue_wait: dict[str, float] = field(default_factory=dict)
    """Seconds each process's main thread was runnable but waited for a processor."""
    machine: dict[str, float] = field(default_factory=dict)
    counters: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return self.ended - self.started

    def covers(self, at: float) -> bool:
        return self.started <= at < self.ended

    def figures(self, messages: int) -> Figures:
        """Cost per message, mean latencies of the store, Kafka and the send, and the share of a core each process used.

        `core_share_others` and `core_share_stolen` (by the hypervisor) say how far to trust the run.
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
        return figures | {f"queued_share_{name}": waited / self.seconds for name, waited in self.run_queue_wait.items()}


@asynccontextmanager
async def measure_window(
    cpu: Callable[[], Readings],
    counters: Callable[[], Readings],
    *,
    run_queue_wait: Callable[[], Readings] = dict,
    others: str = "others",
) -> AsyncIterator[Window]:
    """Measure the body. The counters are scraped outside the CPU readings, which so exclude the cost of scraping."""
    window = Window(others=others)
    counters_before = await asyncio.to_thread(counters)
    cpu_before, wait_before, machine_before, window.started = cpu(), run_queue_wait(), _machine_cpu(), perf_counter()
    yield window
    window.cpu = _difference(cpu(), cpu_before)
    window.run_queue_wait = _difference(run_queue_wait(), wait_before)
    window.machine, window.ended = _difference(_machine_cpu(), machine_before), perf_counter()
    window.counters = _difference(await asyncio.to_thread(counters), counters_before)


def _machine_cpu() -> dict[str, float]:
    """Seconds, summed over all cores."""
    times = psutil.cpu_times()
    stolen = getattr(times, "steal", 0.0)
    return {BUSY: sum(times) - times.idle - getattr(times, "iowait", 0.0) - stolen, STOLEN: stolen}


def _difference(later: Readings, earlier: Readings) -> dict[str, float]:
    return {name: value - earlier.get(name, 0.0) for name, value in later.items()}
