"""How cost grows: W1–W3 with more messages in the chats, more members, more connections. Flat is what the design says.

`messages`: the chat of W2 and W3 holds them all; for W1 they are spread over the chats of a tenth of the pairs, for
fifty chats of a hundred thousand each would take half an hour to fill.
"""

import asyncio
import gc
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import uvloop

from bench.crowd import connected, ignore, require_open
from bench.curves import curves
from bench.figures import Figures, shown
from bench.results import Record
from bench.stage import Report, Stage
from bench.workloads import Setting, catch_up, group, pairs

MESSAGES = (1_000, 10_000, 100_000)
MEMBERS = (10, 100, 1_000)
CONNECTIONS = (100, 1_000, 5_000)
PAIRS, FILLED_PAIRS = 50, 5
FETCHERS, FETCHED = 20, 1_000
WARM = 50

Row = dict[str, float]


@dataclass(frozen=True, slots=True)
class Axis:
    """`panels`: the figures worth a curve."""

    measure: Callable[[Setting], Coroutine[Any, Any, list[Row]]]
    panels: dict[str, str]


async def by_messages(setting: Setting) -> list[Row]:
    stage, rows = setting.stage, list[Row]()
    people = stage.people(50)
    tokens = [person.token for person in people]
    chat_id = stage.group(people[0], people[1:])
    couples = stage.people(2 * PAIRS)
    directs = stage.directs(list(zip(couples[::2], couples[1::2], strict=True)))
    for total in MESSAGES:
        setting.report(f"{total:,} messages")
        _fill_to(setting, chat_id, people[0].user_id, total)
        for number in range(FILLED_PAIRS):
            _fill_to(setting, directs[number], couples[2 * number].user_id, total // FILLED_PAIRS)
        await asyncio.to_thread(stage.settle)
        played = [
            pairs.Pair(chat, couples[2 * number].token, couples[2 * number + 1].token, stage.latest(chat))
            for number, chat in enumerate(directs)
        ]
        latest = stage.latest(chat_id)
        row: Row = {"messages": total}
        row |= _named("w1", await pairs.measure(setting, played))
        row |= _named("w3", await catch_up.measure(setting, chat_id, tokens[:FETCHERS], after=latest - FETCHED))
        row |= _named("w2", await group.measure(setting, group.Room(chat_id, tokens, after=latest)))
        rows.append(_told(setting, row))
    return rows


async def by_members(setting: Setting) -> list[Row]:
    rows = list[Row]()
    everybody = setting.stage.people(max(MEMBERS))
    for members in MEMBERS:
        setting.report(f"{members:,} members")
        people = everybody[:members]
        tokens = [person.token for person in people]
        chat_id = setting.stage.group(people[0], people[1:])
        _fill_to(setting, chat_id, people[0].user_id, FETCHED)
        await asyncio.to_thread(setting.stage.settle)
        row: Row = {"members": members}
        row |= _named("w3", await catch_up.measure(setting, chat_id, tokens[:FETCHERS]))
        row |= _named("w2", await group.measure(setting, group.Room(chat_id, tokens, after=FETCHED)))
        rows.append(_told(setting, row))
    return rows


async def by_connections(setting: Setting) -> list[Row]:
    """W1 beside idle connections of others."""
    stage, rows = setting.stage, list[Row]()
    people = stage.people(max(CONNECTIONS) // 10)
    made = pairs.make_pairs(setting, PAIRS)
    for count in CONNECTIONS:
        setting.report(f"{count:,} idle connections")
        await asyncio.to_thread(stage.renew_web)
        tokens = [people[number % len(people)].token for number in range(count)]
        async with connected(stage.url, tokens[:WARM], [ignore] * WARM):
            before = stage.memory("web")
            async with connected(stage.url, tokens, [ignore] * count) as wires:
                await asyncio.sleep(1.0)
                each = (stage.memory("web") - before) / count / 1024
                made = [replace(pair, after=stage.latest(pair.chat_id)) for pair in made]
                row: Row = {"connections": count, "kib_per_connection": each}
                row |= _named("w1", await pairs.measure(setting, made))
                require_open(wires)
        rows.append(_told(setting, row))
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


def run(stage: Stage, axes: Sequence[str], *, report: Report, say: Report, clients: int = 1) -> None:
    for name in axes:
        axis = AXES[name]
        rows = uvloop.run(axis.measure(Setting(stage, report, clients=clients)))
        gc.collect()
        say(table(rows, name, axis.panels))
        record = Record(stage.engines, {"growth": name, "clients": clients})
        drawn = curves(rows, along=name, panels=axis.panels, subtitle=record.subtitle)
        for path in record.keep(f"growth-{name}", {"rows": rows}, drawn):
            report(f"kept in {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name}")


def table(rows: Sequence[Row], along: str, panels: dict[str, str]) -> str:
    """A line for each figure, a column for each size."""
    sizes = " | ".join(f"{row[along]:,.0f}" for row in rows)
    lines = [f"| with {along} | {sizes} |", "| --- |" + " ---: |" * len(rows)]
    for figure, label in panels.items():
        lines.append(f"| {label} | " + " | ".join(shown(row[figure]) if figure in row else "–" for row in rows) + " |")
    return "\n".join(lines)


def _fill_to(setting: Setting, chat_id: str, sender_id: str, total: int) -> None:
    missing = total - setting.stage.latest(chat_id)
    setting.report(f"  filling in {max(missing, 0):,} messages")
    setting.stage.fill(chat_id, sender_id, missing, setting.report)


def _named(workload: str, figures: Figures) -> Row:
    return {f"{workload}_{name}": value for name, value in figures.items()}


def _told(setting: Setting, row: Row) -> Row:
    told = [name for name in row if name.endswith(("_per_s", "_p99_ms", "kib_per_connection"))]
    setting.report("  " + ", ".join(f"{name} {shown(row[name])}" for name in told))
    return row
