"""A process that sends into one chat and writes each acknowledgement to standard output.

`--crash-at STEP` makes it kill itself with SIGKILL at one step of a later batch: nothing is flushed or cleaned up.
`--redis URL --name NAME` lets it hand drafts over to the home of the chat, and commit those of others; with
`--processes N` it waits until as many are in the list of homes. At its end it adds to `--report FILE` how many messages
it handed over.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from chats.parts import assemble_posting
from chats.services.changes import Changes
from foundation.kernel.clock import SystemClock
from foundation.kernel.ids import ChatId, IdFactory, UserId
from foundation.kernel.loops import ServiceLoop
from foundation.stores.dynamodb import AsyncDatabase, Database, DynamoDBOptions
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka import EventProducer, KafkaOptions, OnDelivered, Outgoing
from foundation.stores.redis.client import RedisOptions, connect_async
from messaging.domain import Draft, Sent
from messaging.parts import MessagingOptions, assemble_peers
from messaging.services.batch_reader import BatchReader
from messaging.services.committer import Committer
from messaging.services.homes import HomeRegistration, Homes
from messaging.services.ingest import Ingest, IngestStores
from messaging.services.metrics import PATHS
from messaging.stores.homes import RedisHomeList
from messaging.stores.messages import IdempotencyKeyStore, MessageStore
from messaging.stores.peer_channel import PeerChannel

STEPS = ("after-read", "before-commit", "after-commit", "after-handover", "after-publish")
IN_FLIGHT = 12
LISTED_WITHIN = 60.0
CRASH_VISIT = 4
# Drafts of a cached member skip the read: only the first two reads always happen, and at a home the first.
CRASH_READ = 2


class CrashPoint:
    """Counts the visits of one step, and kills the process at the last one."""

    def __init__(self, step: str | None, *, is_home: bool = False) -> None:
        self._step = step
        self._visits = 0
        self._last = (1 if is_home else CRASH_READ) if step == "after-read" else CRASH_VISIT

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


def assemble(database: Database, producer: EventProducer, homes: Homes) -> Committer:
    clock = SystemClock()
    stores = IngestStores(
        database=database.on_loop,
        posting=assemble_posting(database),
        changes=Changes(database),
        messages=MessageStore(database.on_loop),
        keys=IdempotencyKeyStore(database),
    )
    ingest = Ingest(stores, clock=clock, homes=homes)
    reader = BatchReader(stores, ingest, clock=clock)
    committer = Committer(ingest=ingest, reader=reader, producer=producer, clock=clock, ids=IdFactory(clock))
    homes.subscribe(committer.on_homes_changed)
    return committer


@asynccontextmanager
async def among_others(committer: Committer, homes: Homes, options: argparse.Namespace) -> AsyncIterator[None]:
    """Be one of several processes, in the order in which `web` starts and stops."""
    redis = connect_async(RedisOptions(options.redis))
    peers = assemble_peers(
        committer,
        homes,
        channel=PeerChannel(redis),
        registration=HomeRegistration(homes, RedisHomeList(redis)),
        options=MessagingOptions(options.name, "a secret of this test", (), send_rate=1e6, send_burst=10**6),
        clock=SystemClock(),
    )
    serving = asyncio.create_task(peers.run())
    async with asyncio.timeout(LISTED_WITHIN):
        while len(homes.names) < options.processes:  # noqa: ASYNC110 - the list is refreshed on its own
            await asyncio.sleep(0.01)
    yield
    await peers.leave()
    await peers.refuse()
    await committer.close()
    await peers.close()
    await serving
    await redis.aclose()


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
    for _ in range(IN_FLIGHT):
        await slots.acquire()


async def run(options: argparse.Namespace, client_message_ids: Sequence[str]) -> None:
    loop = ServiceLoop()
    loop.attach()
    store = DynamoDBOptions(region="us-east-1", endpoint_url=options.endpoint, table_prefix=options.prefix)
    database = Database(store, loop=loop)
    crash_point = CrashPoint(options.crash_at, is_home=options.redis is not None)
    crash_point.watch(database.on_loop)
    producer = CrashingProducer(KafkaOptions(bootstrap_servers=options.kafka), crash_point)
    chat_id, user_id = ChatId(options.chat), UserId(options.user)
    drafts = [Draft(chat_id, user_id, each, f"text of {each}") for each in client_message_ids]
    homes = Homes(is_alone=options.redis is None)
    committer = assemble(database, producer, homes)
    async with nullcontext() if options.redis is None else among_others(committer, homes, options):
        await send_all(committer, drafts)
    await committer.close()
    producer.close()
    await database.on_loop.wire.close()


def count_routed() -> int:
    """The messages that were handed over, or taken back."""
    samples = [sample for metric in PATHS.collect() for sample in metric.samples if sample.name.endswith("_total")]
    return int(sum(sample.value for sample in samples if sample.labels["path"] in {"handed", "fallback"}))


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("endpoint", "prefix", "kafka", "chat", "user"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--crash-at", choices=STEPS)
    for name in ("redis", "name", "report"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    asyncio.run(run(options, sys.stdin.read().split()))
    if options.report is not None:
        with Path(options.report).open("a") as report:
            report.write(f"{count_routed()}\n")


if __name__ == "__main__":
    main()
