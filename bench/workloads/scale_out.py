"""W8: W2 and W6 with one, two and three `web` processes that share every chat, on a store that answers late."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from bench.deployment import Deployment, User
from bench.figures import Figures, format_number
from bench.kafka_order import watch_order
from bench.processes import in_background
from bench.timeline import InvalidRun
from bench.window import Window
from bench.workloads import RunContext, group, mixed
from engines.dynamolite.delay import AnswerDelay

STORE_DELAY = AnswerDelay.parse("10/4")
RATE = 600
LEAST_SHARE = {1: 1.0, 2: 0.25, 3: 0.15}
"""Of the sockets, for each process: with fewer the processes would hardly share the chats."""
ATTEMPTS = 4
SAMPLE_SECONDS = 0.1
KEPT = (
    *("accepted_per_s", "durable_per_s", "ack_p50_ms", "ack_p99_ms", "last_receiver_p99_ms", "delivery_p99_ms"),
    *(
        "dynamodb_requests_per_message",
        "messages_per_transaction",
        "cancelled_share",
        "cancelled_of_all_share",
        "errors",
    ),
    *("kafka_out_of_order", "least_socket_share"),
    *("cpu_ms_web", "core_share_web", "core_share_client", "core_share_others", "core_share_stolen"),
)

Measure = Callable[[], Coroutine[Any, Any, Figures]]


async def w8_scale_out(context: RunContext, *, webs: int = 3, members: int = 50, chats: int = 100) -> Figures:
    """W2 and W6 at 600/s with 1, 2 and 3 web processes that share every chat, on a store that answers after 10/4 ms."""
    users = context.deployment.create_users(max(members, chats * mixed.CHAT_SIZE))
    by_count: dict[int, Figures] = {}
    for count in range(1, webs + 1):
        with context.deployment.scaled(webs=count, store_delay=STORE_DELAY):
            workloads = Workloads(context, users[:members], users[: chats * mixed.CHAT_SIZE])
            by_count[count] = {
                **_kept("group", await _measure_shared(context, workloads.measure_group, count)),
                **_kept("mixed", await _measure_shared(context, workloads.measure_mixed, count)),
            }
        found = (f"{key} {format_number(value)}" for key, value in by_count[count].items())
        context.report(f"  {count} web: {', '.join(found)}")
    return summarise(by_count)


def summarise(by_count: Mapping[int, Figures]) -> Figures:
    """Every figure, and the worst of several processes beside one."""
    figures = {f"web_{count}_{key}": value for count, each in by_count.items() for key, value in each.items()}
    one, several = by_count[1], [by_count[count] for count in by_count if count > 1]

    def ratios(figure: str) -> list[float]:
        return [each[figure] / one[figure] for each in several]

    return figures | {
        "rate_ratio": min(ratios("group_accepted_per_s") + ratios("mixed_durable_per_s")),
        "p99_ratio": max(ratios("group_ack_p99_ms") + ratios("mixed_ack_p99_ms")),
        "requests_ratio": max(
            ratios("group_dynamodb_requests_per_message") + ratios("mixed_dynamodb_requests_per_message")
        ),
        **{
            f"most_{name}": max(each[f"{kind}_{name}"] for each in several for kind in ("group", "mixed"))
            for name in ("cancelled_share", "cancelled_of_all_share", "errors", "kafka_out_of_order")
        },
    }


@dataclass(frozen=True, slots=True)
class Workloads:
    """Both, with errors of the server as a figure: they are part of what is measured."""

    context: RunContext
    members: Sequence[User]
    people: Sequence[User]

    async def measure_group(self) -> Figures:
        chat_id = self.context.deployment.create_group(self.members[0], self.members[1:])
        samples, window = await group.run(self.context, group.Group(chat_id, [user.token for user in self.members]))
        figures = group.figures(samples, window, others=len(self.members) - 1)
        return figures | _cancelled(window) | {"errors": float(len(samples.errors))}

    async def measure_mixed(self) -> Figures:
        load = mixed.Mixed(self.context, mixed.split_into_groups(self.people))
        figures, window = await load.run(RATE)
        check = load.check()
        if check.out_of_order or check.missing > load.errors * mixed.CHAT_SIZE:
            check.require_passed()
        return figures | _cancelled(window) | {"errors": float(load.errors)}


def _cancelled(window: Window) -> Figures:
    """The share of the messages' transactions that were cancelled, and of all, those of watermarks among them."""
    counters = window.counters
    return {
        "cancelled_share": counters["cancelled_commits"] / max(counters["commits"], 1.0),
        "cancelled_of_all_share": counters["cancelled_transactions"] / max(counters["transactions"], 1.0),
    }


async def _measure_shared(context: RunContext, measure: Measure, count: int) -> Figures:
    """Measure, again if a process got too few of the sockets by chance. Raises `InvalidRun`."""
    for _ in range(ATTEMPTS):
        sockets = SocketShares(context.deployment)
        with watch_order(context.deployment.kafka_options) as order:
            async with sockets.sampling():
                figures = await measure()
        if sockets.least >= LEAST_SHARE[count]:
            return figures | {
                "kafka_out_of_order": float(order.out_of_order),
                "least_socket_share": sockets.least,
            }
        context.report(f"  a process had {sockets.least:.0%} of the sockets: once more")
    raise InvalidRun(f"a process had too few of the sockets in {ATTEMPTS} attempts")


class SocketShares:
    """How the sockets were spread over the processes when there were most of them."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._most: Mapping[str, int] = {}

    @property
    def least(self) -> float:
        total = sum(self._most.values())
        return min(self._most.values()) / total if total else 0.0

    def sampling(self) -> AbstractAsyncContextManager[None]:
        return in_background(self._sample())

    async def _sample(self) -> None:
        while True:
            found = await asyncio.to_thread(self._deployment.sockets)
            if sum(found.values()) > sum(self._most.values()):
                self._most = found
            await asyncio.sleep(SAMPLE_SECONDS)


def _kept(kind: str, figures: Figures) -> Figures:
    return {f"{kind}_{name}": figures[name] for name in KEPT if name in figures}
