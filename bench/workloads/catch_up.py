"""W3: members of one chat each fetch what they missed, by sync, page after page."""

import asyncio
from collections.abc import Sequence
from time import perf_counter

from bench.crowd import connected
from bench.figures import Figures, milliseconds
from bench.frames import SYNC_BATCH, sequences, sync_request
from bench.timeline import WrongDelivery
from bench.wire import Receive
from bench.workloads import Setting

ROUNDS = 5
"""After a first one to warm up: one alone is over in a fraction of a second."""
PATIENCE = 120.0


async def w3_catch_up(setting: Setting, *, members: int = 20, messages: int = 1_000) -> Figures:
    """20 members of one chat each fetch 1,000 missed messages by sync, in pages of 100."""
    stage = setting.stage
    people = stage.people(members)
    chat_id = stage.group(people[0], people[1:])
    setting.report(f"  filling a chat with {messages:,} messages")
    stage.fill(chat_id, people[0].user_id, messages, setting.report)
    stage.settle()
    return await measure(setting, chat_id, [person.token for person in people], messages=messages)


async def measure(
    setting: Setting, chat_id: str, tokens: Sequence[str], *, after: int = 0, messages: int = 1_000
) -> Figures:
    """Each of them fetches `messages` after `after`."""
    members, latest = len(tokens), after + messages
    pages, wrong = list[float](), list[int]()
    asked_at, last, done = [0.0] * members, [after] * members, [asyncio.Event() for _ in tokens]

    def ask(number: int) -> None:
        asked_at[number] = perf_counter()
        wires[number].write(sync_request(chat_id, last[number]))

    def receiver(number: int) -> Receive:
        def receive(frame: bytes) -> None:
            if not frame.startswith(SYNC_BATCH):
                return
            pages.append(perf_counter() - asked_at[number])
            found = sequences(frame)
            if found != list(range(last[number] + 1, last[number] + 1 + len(found))) or not found:
                wrong.append(number)
            last[number] += len(found)
            if last[number] < latest and found:
                ask(number)
            else:
                done[number].set()

        return receive

    async def everybody() -> None:
        last[:] = [after] * members
        for number in range(members):
            done[number].clear()
            ask(number)
        await asyncio.wait_for(asyncio.gather(*(event.wait() for event in done)), PATIENCE)

    async with connected(setting.stage.url, tokens, [receiver(number) for number in range(members)]) as wires:
        await everybody()
        pages.clear()
        async with setting.stage.metering() as meter:
            for _ in range(ROUNDS):
                await everybody()
    if wrong:
        raise WrongDelivery(f"{len(wrong)} pages that did not go on where the last one ended")
    fetched = ROUNDS * members * messages
    return {"messages_per_s": fetched / meter.seconds, **milliseconds("page", pages), **meter.figures(fetched)}
