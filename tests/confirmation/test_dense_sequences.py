"""Sequences stay dense while several processes write to one chat and are killed at any step."""

import itertools
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import pytest
import redis

from chats.domain import Membership, Role
from chats.stores.counters import CounterStore
from chats.stores.memberships import MembershipStore
from foundation.kernel.clock import SystemClock
from foundation.kernel.events import Event
from foundation.kernel.ids import ChatId, IdFactory, UserId
from foundation.stores.dynamodb import Database, DynamoDBOptions
from foundation.stores.kafka import EventConsumer, KafkaOptions
from messaging.services.homes import Homes
from messaging.stores.messages import MessageStore
from tests.confirmation.writer import STEPS
from tests.doubles import eventually

MESSAGES = 120
RANDOM_KILLS = 3
TIMEOUT_SECONDS = 100.0


@dataclass
class Writer:
    """One of the processes. Each start sends what no earlier start saw acknowledged."""

    name: str
    command: list[str]
    acknowledgements: Path
    starts: int = 0
    process: "subprocess.Popen[bytes]" = field(init=False)

    @property
    def wanted(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(MESSAGES)]

    def acknowledged(self) -> dict[str, tuple[int, str]]:
        """Id to sequence and message id, without a line that a kill cut short."""
        whole = self.acknowledgements.read_text().rpartition("\n")[0]
        lines = [line.split() for line in whole.splitlines()]
        found = {each: (int(sequence), message_id) for each, sequence, message_id in lines}
        assert len(found) == len({sequence for sequence, _ in found.values()})
        return found

    def start(self, *arguments: str) -> None:
        self.starts += 1
        left = [each for each in self.wanted if each not in self.acknowledged()]
        with self.acknowledgements.open("ab") as file:
            self.process = subprocess.Popen([*self.command, *arguments], stdin=subprocess.PIPE, stdout=file)
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(left).encode())
        self.process.stdin.close()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def create_chat(database: Database) -> tuple[ChatId, UserId]:
    ids, now = IdFactory(SystemClock()), SystemClock().now()
    chat_id, user_id = ids.chat(), ids.user()
    membership = Membership(chat_id, user_id, Role.MEMBER, now, None)
    writes = [
        CounterStore(database).creating(chat_id, members=1, now=now),
        MembershipStore(database).creating(membership),
    ]
    database.transact(writes)
    return chat_id, user_id


def published(options: KafkaOptions, chat_id: ChatId, expected: set[int]) -> set[int]:
    """The chat's sequences in Kafka, read until the expected ones are there."""
    consumer = EventConsumer(options, group=f"reader-{chat_id}", topics=["messages.persisted"])
    found: set[int] = set()

    def complete() -> bool:
        records = consumer.read(timeout=0.1)
        found.update(Event.decode(each.value).payload["sequence"] for each in records if each.key == chat_id)
        return expected <= found

    eventually(complete, within=20)
    consumer.close()
    return found


def kill_at_random(writers: list[Writer], rng: random.Random) -> bool:
    """Kill a running writer after a random number of acknowledgements; False when all have finished."""
    alive = [each for each in writers if each.process.poll() is None]
    if not alive:
        return False
    writer = rng.choice(alive)
    goal = len(writer.acknowledged()) + rng.randrange(1, 25)
    eventually(lambda: writer.process.poll() is not None or len(writer.acknowledged()) >= goal, within=TIMEOUT_SECONDS)
    writer.process.kill()
    return True


def test_writers_that_are_killed_at_any_step_leave_neither_gap_nor_duplicate(
    database: Database, dynamodb_options: DynamoDBOptions, kafka_options: KafkaOptions, tmp_path: Path
) -> None:
    chat_id, user_id = create_chat(database)
    command = command_of(dynamodb_options, kafka_options, chat_id, user_id)
    writers = [Writer(step, command, tmp_path / step) for step in STEPS]
    rng = random.Random()
    try:
        for writer in writers:
            writer.acknowledgements.touch()
            writer.start("--crash-at", writer.name)
        for writer in writers:
            assert writer.process.wait(TIMEOUT_SECONDS) == -9, f"{writer.name} was not killed"
            writer.start()
        kills = 0
        for _ in range(RANDOM_KILLS):
            kills += kill_at_random(writers, rng)
            for writer in writers:
                if writer.process.poll() is not None and len(writer.acknowledged()) < MESSAGES:
                    writer.start()
        assert kills > 0
        finish(writers)
    finally:
        for writer in writers:
            writer.end()
    require_dense(writers, chat_id, database, kafka_options)
    assert sum(writer.starts for writer in writers) >= len(STEPS) * 2


@pytest.mark.parametrize("step", STEPS)
def test_a_home_that_is_killed_at_any_step_leaves_neither_gap_nor_duplicate_in_what_was_handed_to_it(
    database: Database,
    dynamodb_options: DynamoDBOptions,
    kafka_options: KafkaOptions,
    redis_url: str,
    redis_client: redis.Redis,
    tmp_path: Path,
    step: str,
) -> None:
    names = ("home", "one", "other")
    homes = Homes()
    homes.update("home:1", [f"{name}:1" for name in names], at=monotonic())
    chats = (create_chat(database) for _ in itertools.count())
    chat_id, user_id = next(each for each in chats if homes.is_home(each[0]))
    command = [*command_of(dynamodb_options, kafka_options, chat_id, user_id), "--redis", redis_url]
    reports = [tmp_path / f"{name}-handed" for name in names]
    writers = [
        Writer(name, [*command, "--name", name, "--report", str(report)], tmp_path / name)
        for name, report in zip(names, reports, strict=True)
    ]
    home, *others = writers
    try:
        for writer in writers:
            writer.acknowledgements.touch()
        for writer in others:
            writer.start("--processes", str(len(names)))
        home.start("--processes", str(len(names)), "--crash-at", step)
        assert home.process.wait(TIMEOUT_SECONDS) == -9, "the home was not killed"
        home.start()
        finish(writers)
        assert [writer.process.wait(TIMEOUT_SECONDS) for writer in writers] == [0, 0, 0]
    finally:
        for writer in writers:
            writer.end()
    require_dense(writers, chat_id, database, kafka_options)
    assert sum(int(count) for report in reports for count in report.read_text().split()) > 0


def command_of(
    dynamodb_options: DynamoDBOptions, kafka_options: KafkaOptions, chat_id: ChatId, user_id: UserId
) -> list[str]:
    assert dynamodb_options.endpoint_url is not None
    return [
        *(sys.executable, "-m", "tests.confirmation.writer"),
        *("--endpoint", dynamodb_options.endpoint_url, "--prefix", dynamodb_options.table_prefix),
        *("--kafka", kafka_options.bootstrap_servers, "--chat", chat_id, "--user", user_id),
    ]


def finish(writers: Sequence[Writer]) -> None:
    """Start writers anew until all they want is acknowledged."""
    deadline = monotonic() + TIMEOUT_SECONDS
    while any(len(writer.acknowledged()) < MESSAGES for writer in writers):
        assert monotonic() < deadline, "the writers did not finish"
        for writer in writers:
            if writer.process.wait(TIMEOUT_SECONDS) is not None and len(writer.acknowledged()) < MESSAGES:
                writer.start()


def require_dense(writers: Sequence[Writer], chat_id: ChatId, database: Database, kafka_options: KafkaOptions) -> None:
    """The chat holds what was acknowledged and nothing else, and so does Kafka."""
    stored = database.loop.run(MessageStore(database.on_loop).list_between(chat_id, 1, 10**6))
    acknowledged = {each: place for writer in writers for each, place in writer.acknowledged().items()}
    assert [message.sequence for message in stored] == list(range(1, len(writers) * MESSAGES + 1))
    assert {message.client_message_id: (message.sequence, message.message_id) for message in stored} == acknowledged
    assert CounterStore(database).find(chat_id) == len(stored)
    assert all(message.content == f"text of {message.client_message_id}" for message in stored)
    assert published(kafka_options, chat_id, set(range(1, len(stored) + 1))) == set(range(1, len(stored) + 1))
