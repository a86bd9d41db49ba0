"""How cost grows: W1–W3 with more messages in the chats, more members, more connections. Flat curves are expected.

`messages`: the chat of W2 and W3 holds all of them. For W1 they are spread over the chats of a tenth of the pairs:
filling fifty chats would take half an hour.
"""

import asyncio
import gc
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

import uvloop

from bench.curves import curves
from bench.deployment import Deployment, Report
from bench.figures import Figures, format_number
from bench.results import Record
from bench.workloads import RunContext, catch_up, group, pairs
from bench.workloads.idle import open_idle

MESSAGES = (1_000, 10_000, 100_000)
MEMBERS = (10, 100, 1_000)
CONNECTIONS = (100, 1_000, 5_000)
PAIRS, FILLED_PAIRS = 50, 5
FETCHERS, FETCHED = 20, 1_000

Row = dict[str, float]


@dataclass(frozen=True, slots=True)
class Axis:
    """`panels`: the figures to plot, with their labels."""

    measure: Callable[[RunContext], Coroutine[Any, Any, list[Row]]]
    panels: dict[str, str]


async def by_messages(context: RunContext) -> list[Row]:
    deployment, rows = context.deployment, list[Row]()
    users = deployment.create_users(50)
    tokens = [user.token for user in users]
    chat_id = deployment.create_group(users[0], users[1:])
    chat_pairs = pairs.create_pairs(context, PAIRS)
    for total in MESSAGES:
        context.report(f"{total:,} messages")
        _fill_to(context, chat_id, users[0].user_id, total)
        for pair in chat_pairs[:FILLED_PAIRS]:
            _fill_to(context, pair.chat_id, pair.sender.user_id, total // FILLED_PAIRS)
        await asyncio.to_thread(deployment.wait_until_idle)
        chat_pairs = [replace(pair, after=deployment.last_sequence(pair.chat_id)) for pair in chat_pairs]
        latest = deployment.last_sequence(chat_id)
        row: Row = {"messages": total}
        row |= _prefixed("w1", await pairs.measure(context, chat_pairs))
        row |= _prefixed("w3", await catch_up.measure(context, chat_id, tokens[:FETCHERS], after=latest - FETCHED))
        row |= _prefixed("w2", await group.measure(context, group.Group(chat_id, tokens, after=latest)))
        rows.append(_reported(context, row))
    return rows


async def by_members(context: RunContext) -> list[Row]:
    rows = list[Row]()
    all_users = context.deployment.create_users(max(MEMBERS))
    for members in MEMBERS:
        context.report(f"{members:,} members")
        users = all_users[:members]
        tokens = [user.token for user in users]
        chat_id = context.deployment.create_group(users[0], users[1:])
        _fill_to(context, chat_id, users[0].user_id, FETCHED)
        await asyncio.to_thread(context.deployment.wait_until_idle)
        row: Row = {"members": members}
        row |= _prefixed("w3", await catch_up.measure(context, chat_id, tokens[:FETCHERS]))
        row |= _prefixed("w2", await group.measure(context, group.Group(chat_id, tokens, after=FETCHED)))
        rows.append(_reported(context, row))
    return rows


async def by_connections(context: RunContext) -> list[Row]:
    """W1 with idle connections of other users."""
    deployment, rows = context.deployment, list[Row]()
    users = deployment.create_users(max(CONNECTIONS) // 10)
    chat_pairs = pairs.create_pairs(context, PAIRS)
    for count in CONNECTIONS:
        context.report(f"{count:,} idle connections")
        await asyncio.to_thread(deployment.restart_web)
        tokens = [users[number % len(users)].token for number in range(count)]
        async with open_idle(deployment, tokens) as kib:
            chat_pairs = [replace(pair, after=deployment.last_sequence(pair.chat_id)) for pair in chat_pairs]
            row: Row = {"connections": count, "kib_per_connection": kib}
            row |= _prefixed("w1", await pairs.measure(context, chat_pairs))
        rows.append(_reported(context, row))
    return rows


W1 = {
    "w1_delivered_per_s": "W1 delivered messages/s",
    "w1_delivery_p99_ms": "W1 p99 delivery, ms",
    "w1_dynamodb_requests_per_message": "W1 DynamoDB requests/message",
}
W2 = {
    "w2_accepted_per_s": "W2 accepted messages/s",
    "w2_deliveries_per_s": "W2 deliveries/s",
    "w2_last_receiver_p99_ms": "W2 p99 last receiver, ms",
    "w2_dynamodb_requests_per_message": "W2 DynamoDB requests/message",
}
W3 = {"w3_messages_per_s": "W3 messages fetched/s", "w3_page_p99_ms": "W3 p99 page, ms"}
AXES = {
    "messages": Axis(by_messages, W1 | W2 | W3),
    "members": Axis(by_members, W2 | W3),
    "connections": Axis(by_connections, W1 | {"kib_per_connection": "Memory per connection, KiB"}),
}


def run(deployment: Deployment, axes: Sequence[str], *, report: Report, output: Report, clients: int = 1) -> None:
    for name in axes:
        axis = AXES[name]
        rows = uvloop.run(axis.measure(RunContext(deployment, report, clients=clients)))
        gc.collect()
        output(table(rows, name, axis.panels))
        record = Record(deployment.engines, {"growth": name, "clients": clients})
        drawn = curves(rows, along=name, panels=axis.panels, subtitle=record.subtitle)
        record.keep(f"growth-{name}", {"rows": rows}, drawn, report=report)


def table(rows: Sequence[Row], along: str, panels: dict[str, str]) -> str:
    """A line for each figure, a column for each size."""
    sizes = " | ".join(f"{row[along]:,.0f}" for row in rows)
    lines = [f"| with {along} | {sizes} |", "| --- |" + " ---: |" * len(rows)]
    for figure, label in panels.items():
        lines.append(
            f"| {label} | " + " | ".join(format_number(row[figure]) if figure in row else "–" for row in rows) + " |"
        )
    return "\n".join(lines)


def _fill_to(context: RunContext, chat_id: str, sender_id: str, total: int) -> None:
    missing = total - context.deployment.last_sequence(chat_id)
    context.report(f"  filling in {max(missing, 0):,} messages")
    context.deployment.fill(chat_id, sender_id, missing, context.report)


def _prefixed(workload: str, figures: Figures) -> Row:
    return {f"{workload}_{name}": value for name, value in figures.items()}


def _reported(context: RunContext, row: Row) -> Row:
    main = [name for name in row if name.endswith(("_per_s", "_p99_ms", "kib_per_connection"))]
    context.report("  " + ", ".join(f"{name} {format_number(row[name])}" for name in main))
    return row
