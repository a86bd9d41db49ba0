"""The ingest path alone: `python -m bench.ingest`. Embedded engines, one process, no edge.

Closed loop: each sender sends its next message when the last one is acknowledged. Beside each figure stands the
store's own ceiling, measured in the same run with the same transactions and a client that does nothing else.
"""

import argparse
import asyncio
import http.client
import json
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

import chats.stores
import messaging.stores
from chats.domain import Membership, Role, Tally
from chats.services.posting import Posting
from chats.stores.counters import CounterStore
from chats.stores.memberships import MembershipStore
from engines.dynamodb import LIST_TABLES, DynamoDbEngine
from engines.kafka import KafkaEngine
from foundation.kernel.clock import SystemClock
from foundation.kernel.events import TOPICS
from foundation.kernel.ids import ChatId, IdFactory, UserId
from foundation.kernel.promise import Promise
from foundation.stores.dynamodb import Database, DynamoDBOptions, schema
from foundation.stores.kafka import EventProducer, KafkaOptions
from foundation.stores.kafka.announcer import Announcer
from foundation.stores.metrics import DYNAMODB_ITEMS, DYNAMODB_REQUESTS
from messaging.domain import Draft, Message, Sent
from messaging.services.committer import Committer
from messaging.services.ingest import Ingest
from messaging.stores.idempotency import IdempotencyKeyStore
from messaging.stores.messages import MessageStore

BODY = "x" * 120
CHATS = 64
SENDERS = 64
WARM_UP = 1.0


@dataclass(frozen=True, slots=True)
class Figures:
    chats: int
    senders: int
    messages_per_second: float
    p50_ms: float
    p99_ms: float
    requests_per_message: float
    items_read_per_message: float
    items_written_per_message: float
    cpu_ms_per_message: float
    store_cpu_ms_per_message: float
    share_of_ceiling: float


class Bench:
    """The parts of the ingest path on embedded engines, with chats whose members are all senders."""

    def __init__(self, dynamodb: DynamoDbEngine, kafka_servers: str) -> None:
        self.engine = dynamodb
        options = DynamoDBOptions(region="us-east-1", endpoint_url=dynamodb.endpoint)
        self.database = Database(options)
        tables = (*chats.stores.TABLES, *messaging.stores.TABLES)
        schema.create_missing(self.database, tables, report=lambda _line: None)
        self.clock = SystemClock()
        self.ids = IdFactory(self.clock)
        self.memberships = MembershipStore(self.database)
        self.counters = CounterStore(self.database)
        self.posting = Posting(database=self.database, memberships=self.memberships, counters=self.counters)
        self.messages = MessageStore(self.database)
        self.keys = IdempotencyKeyStore(self.database)
        ingest = Ingest(
            database=self.database, posting=self.posting, messages=self.messages, keys=self.keys, clock=self.clock
        )
        self.producer = EventProducer(KafkaOptions(bootstrap_servers=kafka_servers, fetch_wait_ms=5))
        self.announcer = Announcer(self.producer)
        self.committer = Committer(ingest=ingest, announcer=self.announcer, clock=self.clock, ids=self.ids)
        self.users = [self.ids.user() for _ in range(SENDERS)]
        self.chats = [self._create_chat() for _ in range(CHATS)]

    def _create_chat(self) -> ChatId:
        chat_id, now = self.ids.chat(), self.clock.now()
        members = [Membership(chat_id, user_id, Role.MEMBER, now, None) for user_id in self.users]
        self.database.transact([self.counters.creating(chat_id, now=now), *map(self.memberships.creating, members)])
        return chat_id

    def measure(self, *, chats: int, senders: int, seconds: float, ceiling: float) -> Figures:
        asyncio.run(self._load(chats, senders, WARM_UP))
        before, cpu, store_cpu = _store_counts(), _own_cpu(), _cpu_of(self.engine.process.pid)
        took: list[float] = asyncio.run(self._load(chats, senders, seconds))
        after = _store_counts()
        count = len(took)
        took.sort()
        rate = count / seconds
        return Figures(
            chats=chats,
            senders=senders,
            messages_per_second=round(rate),
            p50_ms=round(took[count // 2] * 1000, 1),
            p99_ms=round(took[int(count * 0.99)] * 1000, 1),
            requests_per_message=round((after["requests"] - before["requests"]) / count, 3),
            items_read_per_message=round((after["read"] - before["read"]) / count, 2),
            items_written_per_message=round((after["written"] - before["written"]) / count, 2),
            cpu_ms_per_message=round((_own_cpu() - cpu) * 1000 / count, 3),
            store_cpu_ms_per_message=round((_cpu_of(self.engine.process.pid) - store_cpu) * 1000 / count, 3),
            share_of_ceiling=round(rate / ceiling, 2),
        )

    async def _load(self, chats: int, senders: int, seconds: float) -> list[float]:
        until = time.perf_counter() + seconds
        jobs = [self._send(self.users[n], self.chats[n % chats], until) for n in range(senders)]
        return [each for took in await asyncio.gather(*jobs) for each in took]

    async def _send(self, user_id: UserId, chat_id: ChatId, until: float) -> list[float]:
        took: list[float] = []
        while (started := time.perf_counter()) < until:
            draft = Draft(chat_id, user_id, str(self.ids.event()), BODY)
            await _answered(self.committer.submit(draft))
            took.append(time.perf_counter() - started)
        return took

    def ceiling(self, *, chats: int, messages: int, threads: int, seconds: float) -> float:
        """Messages a second that the store takes in such transactions, each thread with chats of its own."""
        counts = [0] * threads
        until = time.perf_counter() + seconds

        def run(place: int) -> None:
            lean = _LeanClient(self.engine.endpoint)
            mine = {self._create_chat(): 0 for _ in range(chats)}
            while time.perf_counter() < until:
                lean.transact(list(self._transaction(mine, messages)))
                counts[place] += chats * messages

        workers = [threading.Thread(target=run, args=(place,)) for place in range(threads)]
        started = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return sum(counts) / (time.perf_counter() - started)

    def _transaction(self, chats: dict[ChatId, int], messages: int) -> Iterator[dict[str, Any]]:
        now = self.clock.now()
        for chat_id, last in chats.items():
            chats[chat_id] = last + messages
            yield self.posting.moving_counter(chat_id, current=Tally(last), added=messages, now=now).request
            for sequence in range(last + 1, last + messages + 1):
                message = Message(
                    self.ids.message(), chat_id, sequence, self.users[0], str(sequence), BODY, "text/plain", ""
                )
                yield self.keys.remembering(message, now=now).request
                yield self.messages.storing(message).request

    def close(self) -> None:
        self.committer.close()
        self.announcer.close()
        self.producer.close()


async def _answered(promise: Promise[Sent]) -> None:
    loop, answered = asyncio.get_running_loop(), asyncio.Event()
    promise.add_done_callback(lambda _: loop.call_soon_threadsafe(answered.set))
    await answered.wait()
    promise.result()


class _LeanClient:
    """TransactWriteItems and nothing else: one connection, no signature worth the name, the answer unread."""

    def __init__(self, endpoint: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(endpoint).netloc)
        self._headers = {**LIST_TABLES, "X-Amz-Target": "DynamoDB_20120810.TransactWriteItems"}

    def transact(self, items: Sequence[dict[str, Any]]) -> None:
        self._connection.request("POST", "/", orjson.dumps({"TransactItems": items}), self._headers)
        response = self._connection.getresponse()
        body = response.read()
        if response.status != http.client.OK:
            raise RuntimeError(f"the store refused a transaction: {body!r}")


def _store_counts() -> dict[str, float]:
    counts = {"requests": 0.0, "read": 0.0, "written": 0.0}
    for sample in next(iter(DYNAMODB_REQUESTS.collect())).samples:
        if sample.name.endswith("_total"):
            counts["requests"] += sample.value
    for sample in next(iter(DYNAMODB_ITEMS.collect())).samples:
        if sample.name.endswith("_total"):
            wrote = sample.labels["pattern"] in {"Store message", "Insert key", "Allocate sequence"}
            counts["written" if wrote else "read"] += sample.value
    return counts


def _own_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running() -> Iterator[Bench]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-bench-")))
        engine = DynamoDbEngine(data_dir=directory)
        stack.enter_context(engine)
        os.environ.update(engine.environment())
        bench = Bench(engine, stack.enter_context(KafkaEngine(topics=TOPICS)))
        stack.callback(bench.close)
        yield bench


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of each measurement")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    with running() as bench:
        ceilings = {
            1: bench.ceiling(chats=1, messages=49, threads=1, seconds=options.seconds),
            CHATS: bench.ceiling(chats=33, messages=1, threads=2, seconds=options.seconds),
        }
        _say(f"the store's ceiling: {ceilings[1]:.0f} messages/s of one chat, {ceilings[CHATS]:.0f} of many")
        rows = []
        for chats in (1, CHATS):
            for senders in (1, 8, 64):
                rows.append(
                    bench.measure(chats=chats, senders=senders, seconds=options.seconds, ceiling=ceilings[chats])
                )
                _say(str(rows[-1]))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
