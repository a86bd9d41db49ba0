"""The workloads of the quality document: closed loops and open ones, each a coroutine that returns its figures."""

import asyncio
import itertools
import json
import random
import secrets
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from time import perf_counter
from typing import Any

from bench.stage import Person, Report, Stage
from bench.wire import SEQUENCES, Wire, connect

BODY = "x" * 120
Figures = dict[str, float]


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def milliseconds(name: str, values: Sequence[float]) -> Figures:
    return {f"{name}_p50_ms": percentile(values, 0.5) * 1000, f"{name}_p99_ms": percentile(values, 0.99) * 1000}


def draft(chat_id: str, number: str) -> bytes:
    frame = {"type": "send_message", "client_message_id": number, "chat_id": chat_id, "content": BODY}
    return json.dumps(frame, separators=(",", ":")).encode()


async def _everyone(stage: Stage, people: Sequence[Person], receive: Callable[[int, bytes], None]) -> list[Wire]:
    """Connect all, a few at a time; `receive` gets a person's number and a frame."""
    gate = asyncio.Semaphore(20)

    async def one(number: int, person: Person) -> Wire:
        async with gate:
            return await connect(stage.url, person.token, partial(receive, number))

    return list(await asyncio.gather(*(one(number, person) for number, person in enumerate(people))))


async def w1_pairs(
    stage: Stage, report: Report, *, pairs: int = 50, warm_up: float = 2.0, seconds: float = 8.0
) -> Figures:
    """50 sender→receiver pairs; the next send when the receiver has the previous one."""
    people = stage.people(2 * pairs)
    chats = [stage.direct(people[2 * pair], people[2 * pair + 1]) for pair in range(pairs)]
    numbers, sent_at, latencies = itertools.count(), [0.0] * pairs, []
    running = True

    def send(pair: int) -> None:
        sent_at[pair] = perf_counter()
        wires[2 * pair].write(draft(chats[pair], f"w1-{next(numbers)}"))

    def receive(number: int, frame: bytes) -> None:
        if number % 2 and frame.startswith(b'{"type":"message"') and running:
            latencies.append(perf_counter() - sent_at[number // 2])
            send(number // 2)

    wires = await _everyone(stage, people, receive)
    for pair in range(pairs):
        send(pair)
    await asyncio.sleep(warm_up)
    latencies.clear()
    await asyncio.sleep(seconds)
    running = False
    figures = {"delivered_per_s": len(latencies) / seconds, **milliseconds("delivery", latencies)}
    await _leave(wires)
    return figures | {"messages": len(latencies)}


async def w2_group(
    stage: Stage, report: Report, *, members: int = 50, senders: int = 10, warm_up: float = 2.0, seconds: float = 8.0
) -> Figures:
    """One group of online members, ten of them sending; the next send on the ack of the previous one."""
    people = stage.people(members)
    chat_id = stage.group(people[0], people[1:])
    numbers, started = itertools.count(), dict[str, float]()
    sent_at, arrivals, last_arrival = dict[int, float](), dict[int, int](), dict[int, float]()
    deliveries, running, measuring = 0, True, False

    def send(number: int) -> None:
        name = f"w2-{number}-{next(numbers)}"
        started[name] = perf_counter()
        wires[number].write(draft(chat_id, name))

    def receive(number: int, frame: bytes) -> None:
        nonlocal deliveries
        if frame.startswith(b'{"type":"ack"'):
            answer = json.loads(frame)
            begun = started.pop(answer["client_message_id"])
            if measuring:
                sent_at[answer["sequence"]] = begun
            if running:
                send(number)
            return
        now = perf_counter()
        for found in SEQUENCES.findall(frame):
            sequence = int(found)
            deliveries += measuring
            arrivals[sequence] = arrivals.get(sequence, 0) + 1
            last_arrival[sequence] = now

    wires = await _everyone(stage, people, receive)
    for number in range(senders):
        send(number)
    await asyncio.sleep(warm_up)
    measuring = True
    await asyncio.sleep(seconds)
    measuring = running = False
    accepted, delivered = len(sent_at), deliveries
    await asyncio.sleep(1.0)
    complete = [last_arrival[seq] - begun for seq, begun in sent_at.items() if arrivals.get(seq) == members - 1]
    await _leave(wires)
    return {
        "accepted_per_s": accepted / seconds,
        "deliveries_per_s": delivered / seconds,
        **milliseconds("last_receiver", complete),
        "complete_share": len(complete) / max(1, accepted),
        "messages": accepted,
    }


async def w3_catch_up(stage: Stage, report: Report, *, members: int = 20, messages: int = 1_000) -> Figures:
    """Members of one chat each fetch 1,000 missed messages by sync, in pages of 100."""
    people = stage.people(members)
    chat_id = stage.group(people[0], people[1:])
    report(f"  filling a chat with {messages} messages")
    stage.fill(chat_id, people[0], messages)
    fetched, pages = 0, list[float]()
    asked_at, last, done = [0.0] * members, [0] * members, [asyncio.Event() for _ in people]

    def ask(number: int) -> None:
        asked_at[number] = perf_counter()
        frame = {"type": "sync_request", "chat_id": chat_id, "last_acked_sequence": last[number], "limit": 100}
        wires[number].write(json.dumps(frame).encode())

    def receive(number: int, frame: bytes) -> None:
        nonlocal fetched
        if not frame.startswith(b'{"type":"sync_batch"'):
            return
        pages.append(perf_counter() - asked_at[number])
        found = SEQUENCES.findall(frame)
        fetched += len(found)
        last[number] += len(found)
        if last[number] < messages:
            ask(number)
        else:
            done[number].set()

    wires = await _everyone(stage, people, receive)
    figures: Figures = {}
    for _ in range(3):
        fetched, last[:] = 0, [0] * members
        pages.clear()
        for event in done:
            event.clear()
        begun = perf_counter()
        for number in range(members):
            ask(number)
        await asyncio.gather(*(event.wait() for event in done))
        figures = {"messages_per_s": fetched / (perf_counter() - begun), **milliseconds("page", pages)}
    await _leave(wires)
    return figures | {"messages": fetched}


async def w4_idle(stage: Stage, report: Report, *, connections: int = 1_000) -> Figures:
    """What an idle connection costs the server in memory."""
    people = stage.people(connections // 10)
    warm = await _everyone(stage, people[:50], _ignore)
    before = stage.memory("web")
    wires = await _everyone(stage, [people[n % len(people)] for n in range(connections)], _ignore)
    await asyncio.sleep(1.0)
    each = (stage.memory("web") - before) / connections
    await _leave([*warm, *wires])
    return {"kib_per_connection": each / 1024}


async def w5_hot_chat(stage: Stage, report: Report, *, members: int = 200, seconds: float = 6.0) -> Figures:
    """Everyone of a group sends, at a given rate whatever comes back: how much is durable with p99 below 100 ms?"""
    people = stage.people(members)
    chat_id = stage.group(people[0], people[1:])
    numbers, started, acks = itertools.count(), dict[str, float](), list[float]()

    def receive(number: int, frame: bytes) -> None:
        if frame.startswith(b'{"type":"ack"'):
            begun = started.pop(json.loads(frame)["client_message_id"], None)
            if begun is not None:
                acks.append(perf_counter() - begun)

    wires = await _everyone(stage, people, receive)
    best: Figures = {"durable_per_s": 0.0}
    for rate in (250, 500, 1_000, 1_500, 2_000, 2_500):
        acks.clear()
        begun = perf_counter()
        while (now := perf_counter()) - begun < seconds:
            due = int((now - begun) * rate) - (len(acks) + len(started))
            for _ in range(max(0, min(due, 200))):
                name = f"w5-{next(numbers)}"
                started[name] = perf_counter()
                random.choice(wires).write(draft(chat_id, name))  # noqa: S311 - not a secret
            await asyncio.sleep(0.005)
        reached, late = len(acks) / seconds, percentile(acks, 0.99)
        report(f"  {rate}/s offered: {reached:.0f}/s durable, p99 ack {late * 1000:.0f} ms")
        await asyncio.sleep(1.0)
        started.clear()
        if late > 0.1:
            break
        best = {"durable_per_s": reached, **milliseconds("ack", acks)}
    await _leave(wires)
    return best


async def w6_mixed(stage: Stage, report: Report, *, chats: int = 100, seconds: float = 10.0) -> Figures:
    """10× and 50× the baseline: 120 and 600 messages a second, five members a chat, acks, reconnects."""
    figures: Figures = {}
    for rate in (120, 600):
        figures |= {f"at_{rate}_{name}": value for name, value in (await _mixed(stage, rate, chats, seconds)).items()}
    return figures


async def _mixed(stage: Stage, rate: int, chats: int, seconds: float) -> Figures:
    people = stage.people(chats * 5)
    rooms = [people[n * 5 : n * 5 + 5] for n in range(chats)]
    ids = [stage.group(room[0], room[1:]) for room in rooms]
    started, sent_at, acks, deliveries = (
        dict[str, float](),
        dict[tuple[str, int], float](),
        list[float](),
        list[float](),
    )

    def receive(number: int, frame: bytes) -> None:
        now = perf_counter()
        if frame.startswith(b'{"type":"ack"'):
            answer = json.loads(frame)
            begun = started.pop(answer["client_message_id"], None)
            if begun is not None:
                acks.append(now - begun)
                sent_at[answer["chat_id"], answer["sequence"]] = begun
        elif frame.startswith(b'{"type":"message'):
            chat_id = ids[number // 5]
            for found in SEQUENCES.findall(frame):
                begun = sent_at.get((chat_id, int(found)))
                if begun is not None:
                    deliveries.append(now - begun)
                ack = {"type": "ack", "chat_id": chat_id, "sequence": int(found)}
                wires[number].write(json.dumps(ack).encode())

    wires = await _everyone(stage, people, receive)
    begun, sent = perf_counter(), 0
    while (now := perf_counter()) - begun < seconds:
        for _ in range(int((now - begun) * rate) - sent):
            room, name = random.randrange(chats), secrets.token_hex(8)  # noqa: S311 - not a secret
            started[name] = perf_counter()
            wires[room * 5 + sent % 5].write(draft(ids[room], name))
            sent += 1
        if random.random() < 0.05:  # noqa: S311 - a tenth of all connections within the run
            number = random.randrange(len(people))  # noqa: S311 - not a secret
            wires[number].close()
            wires[number] = await connect(stage.url, people[number].token, partial(receive, number))
        await asyncio.sleep(0.01)
    await asyncio.sleep(1.0)
    await _leave(wires)
    return {"sent_per_s": sent / seconds, **milliseconds("ack", acks), **milliseconds("delivery", deliveries)}


async def w7_large_group(stage: Stage, report: Report, *, members: int = 1_000, messages: int = 30) -> Figures:
    """A group of a thousand online members: when has the first one the message, when the last?"""
    report(f"  making {members} users")
    people = stage.people(members)
    chat_id = stage.group(people[0], people[1:])
    first, last, arrived, begun = list[float](), list[float](), 0, 0.0
    complete = asyncio.Event()

    def receive(number: int, frame: bytes) -> None:
        nonlocal arrived
        if frame.startswith(b'{"type":"message'):
            arrived += 1
            if arrived == 1:
                first.append(perf_counter() - begun)
            if arrived == members - 1:
                last.append(perf_counter() - begun)
                complete.set()

    wires = await _everyone(stage, people, receive)
    for number in range(messages):
        complete.clear()
        arrived, begun = 0, perf_counter()
        wires[0].write(draft(chat_id, f"w7-{number}"))
        await asyncio.wait_for(complete.wait(), 10)
    await _leave(wires)
    return {**milliseconds("first_receiver", first[5:]), **milliseconds("last_receiver", last[5:])}


def _ignore(number: int, frame: bytes) -> None:
    """Nobody reads."""


async def _leave(wires: Sequence[Wire]) -> None:
    for wire in wires:
        wire.close()
    await asyncio.sleep(0.3)


WORKLOADS: dict[str, Callable[[Stage, Report], Coroutine[Any, Any, Figures]]] = {
    "W1": w1_pairs,
    "W2": w2_group,
    "W3": w3_catch_up,
    "W4": w4_idle,
    "W5": w5_hot_chat,
    "W6": w6_mixed,
    "W7": w7_large_group,
}
