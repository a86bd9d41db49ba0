"""A process that sends into one chat and writes down each acknowledgement before it counts on it.

`--die STEP` makes it kill itself with SIGKILL at one step of a later batch: nothing is flushed, nothing is cleaned up.
"""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from chats.services.posting import Posting
from chats.stores.counters import CounterStore
from chats.stores.memberships import MembershipStore
from foundation.kernel.clock import SystemClock
from foundation.kernel.ids import ChatId, IdFactory, UserId
from foundation.kernel.promise import Promise
from foundation.stores.dynamodb import Database, DynamoDBOptions
from foundation.stores.errors import EventLogUnavailable
from foundation.stores.kafka import EventProducer, KafkaOptions, Outgoing, Told
from foundation.stores.kafka.announcer import Announcer
from messaging.domain import Draft, Sent
from messaging.services.committer import Committer
from messaging.services.ingest import Ingest
from messaging.stores.idempotency import IdempotencyKeyStore
from messaging.stores.messages import MessageStore

STEPS = ("after-read", "before-commit", "after-commit", "after-handover", "after-publish")
IN_FLIGHT = 12
FATAL_VISIT = 4
# A member who is known is not read again unless something goes wrong: more than two are not certain.
FATAL_READ = 2


class DeadlyAnnouncer(Announcer):
    """Dies once the events are handed over, or once Kafka holds them and before anyone is told."""

    def __init__(self, producer: EventProducer, die: Callable[[str], None]) -> None:
        super().__init__(producer)
        self._die = die

    def hand_over(self, batch: Sequence[Outgoing], told: Told, *, timeout: float | None = None) -> None:
        def deadly(places: Sequence[int], error: EventLogUnavailable | None) -> None:
            self._die("after-publish")
            told(places, error)

        super().hand_over(batch, deadly, timeout=timeout)
        self._die("after-handover")


class Death:
    """Counts the visits of each step, and kills the process at the fatal one."""

    def __init__(self, step: str | None) -> None:
        self._step = step
        self._visits = 0
        self._last = FATAL_READ if step == "after-read" else FATAL_VISIT

    def __call__(self, step: str) -> None:
        if step == self._step:
            self._visits += 1
            if self._visits == self._last:
                os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, database: Database) -> None:
        dispatch = database.connection.dispatch

        def deadly(operation_name: str, operation_kwargs: dict[str, Any]) -> dict[str, Any]:
            if operation_name == "TransactWriteItems":
                self("before-commit")
            answer = dispatch(operation_name, operation_kwargs)
            self({"BatchGetItem": "after-read", "TransactWriteItems": "after-commit"}.get(operation_name, ""))
            return answer

        database.connection.dispatch = deadly  # type: ignore[method-assign]


def committer(database: Database, producer: EventProducer, death: Death) -> Committer:
    clock = SystemClock()
    posting = Posting(database=database, memberships=MembershipStore(database), counters=CounterStore(database))
    ingest = Ingest(
        database=database,
        posting=posting,
        messages=MessageStore(database),
        keys=IdempotencyKeyStore(database),
        clock=clock,
    )
    return Committer(ingest=ingest, announcer=DeadlyAnnouncer(producer, death), clock=clock, ids=IdFactory(clock))


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("endpoint", "prefix", "kafka", "chat", "user"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--die", choices=STEPS)
    options = parser.parse_args()
    wanted = sys.stdin.read().split()
    database = Database(DynamoDBOptions(region="us-east-1", endpoint_url=options.endpoint, table_prefix=options.prefix))
    producer = EventProducer(KafkaOptions(bootstrap_servers=options.kafka))
    death = Death(options.die)
    death.watch(database)
    writer = committer(database, producer, death)
    room = threading.Semaphore(IN_FLIGHT)

    def acknowledged(client_message_id: str, answer: Promise[Sent]) -> None:
        if answer.exception() is None:
            sent = answer.result()
            os.write(1, f"{client_message_id} {sent.message.sequence} {sent.message.message_id}\n".encode())
        room.release()

    for each in wanted:
        room.acquire()
        draft = Draft(ChatId(options.chat), UserId(options.user), each, f"text of {each}")
        writer.submit(draft).add_done_callback(lambda answer, each=each: acknowledged(each, answer))  # type: ignore[misc]
    writer.close()
    producer.close()


if __name__ == "__main__":
    main()
