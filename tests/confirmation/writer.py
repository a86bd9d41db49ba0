"""A process that sends into one chat and writes each acknowledgement to standard output.

`--crash-at STEP` makes it kill itself with SIGKILL at one step of a later batch: nothing is flushed or cleaned up.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from chats.parts import assemble_posting
from chats.services.changes import Changes
from foundation.kernel.clock import SystemClock
from foundation.kernel.ids import ChatId, IdFactory, UserId
from foundation.kernel.loops import ServiceLoop
from foundation.stores.dynamodb import AsyncDatabase, Database, DynamoDBOptions
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka import EventProducer, KafkaOptions, OnDelivered, Outgoing
from messaging.domain import Draft, Sent
from messaging.services.committer import Committer
from messaging.services.ingest import Ingest
from messaging.stores.messages import IdempotencyKeyStore, MessageStore

STEPS = ("after-read", "before-commit", "after-commit", "after-handover", "after-publish")
IN_FLIGHT = 12
CRASH_VISIT = 4
# Drafts of a cached member skip the read: only the first two reads always happen.
CRASH_READ = 2


class CrashPoint:
    """Counts the visits of one step, and kills the process at the last one."""

    def __init__(self, step: str | None) -> None:
        self._step = step
        self._visits = 0
        self._last = CRASH_READ if step == "after-read" else CRASH_VISIT

    def visit(self, step: str) -> None:
        if step == self._step:
            self._visits += 1
            if self._visits == self._last:
                os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, database: AsyncDatabase) -> None:
        send = database.wire.call

        async def call(operation: str, request: dict[str, Any]) -> dict[str, Any]:
            if operation == "TransactWriteItems":
                self.visit("before-commit")
            answer = await send(operation, request)
            self.visit({"BatchGetItem": "after-read", "TransactWriteItems": "after-commit"}.get(operation, ""))
            return answer

        database.wire.call = call  # type: ignore[method-assign]


class CrashingProducer(EventProducer):
    """Visits a step when events are handed to Kafka's client, and one when Kafka has taken them."""

    def __init__(self, options: KafkaOptions, crash_point: CrashPoint) -> None:
        super().__init__(options)
        self._crash_point = crash_point

    def publish(self, batch: Sequence[Outgoing], *, on_delivered: OnDelivered, timeout: float | None = None) -> None:
        def crash_or_report(positions: Sequence[int], error: EventLogUnavailable | None) -> None:
            self._crash_point.visit("after-publish")
            on_delivered(positions, error)

        super().publish(batch, on_delivered=crash_or_report, timeout=timeout)
        self._crash_point.visit("after-handover")


def assemble(database: Database, producer: EventProducer) -> Committer:
    clock = SystemClock()
    ingest = Ingest(
        database=database.on_loop,
        posting=assemble_posting(database),
        changes=Changes(database),
        messages=MessageStore(database.on_loop),
        keys=IdempotencyKeyStore(database),
        clock=clock,
    )
    return Committer(ingest=ingest, producer=producer, clock=clock, ids=IdFactory(clock))


async def send_all(committer: Committer, drafts: Sequence[Draft]) -> None:
    """Keep a few drafts in flight until each has its answer."""
    slots = asyncio.Semaphore(IN_FLIGHT)

    def acknowledge(client_message_id: str, answer: "asyncio.Future[Sent]") -> None:
        if answer.exception() is None:
            message = answer.result().message
            os.write(1, f"{client_message_id} {message.sequence} {message.message_id}\n".encode())
        slots.release()

    for draft in drafts:
        await slots.acquire()
        committer.submit(draft).add_done_callback(partial(acknowledge, draft.client_message_id))
    await committer.close()


async def run(options: argparse.Namespace, client_message_ids: Sequence[str]) -> None:
    loop = ServiceLoop()
    loop.attach()
    store = DynamoDBOptions(region="us-east-1", endpoint_url=options.endpoint, table_prefix=options.prefix)
    database = Database(store, loop=loop)
    crash_point = CrashPoint(options.crash_at)
    crash_point.watch(database.on_loop)
    producer = CrashingProducer(KafkaOptions(bootstrap_servers=options.kafka), crash_point)
    chat_id, user_id = ChatId(options.chat), UserId(options.user)
    drafts = [Draft(chat_id, user_id, each, f"text of {each}") for each in client_message_ids]
    await send_all(assemble(database, producer), drafts)
    producer.close()
    await database.on_loop.wire.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("endpoint", "prefix", "kafka", "chat", "user"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--crash-at", choices=STEPS)
    asyncio.run(run(parser.parse_args(), sys.stdin.read().split()))


if __name__ == "__main__":
    main()
