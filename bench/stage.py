"""Where the workloads play: a running Parley, as many users and chats as wanted, and what its processes use."""

import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.request import urlopen

import psutil

from bench.frames import BODY
from bench.meter import Meter, metering
from bench.processes import ClientProcesses, cpu_of, queued_of
from foundation.kernel.ids import ChatId, UserId

if TYPE_CHECKING:
    from config.wiring.web import Web

COUNTERS = {
    "parley_dynamodb_requests_total{": "dynamodb_requests",
    "parley_dynamodb_items_total{": "dynamodb_items",
    "parley_commit_batch_messages_sum": "committed_messages",
    "parley_commit_batch_messages_count": "commits",
    'parley_dynamodb_request_seconds_sum{operation="TransactWriteItems"}': "transaction_seconds",
    'parley_dynamodb_request_seconds_count{operation="TransactWriteItems"}': "transactions",
    "parley_kafka_publish_seconds_sum": "announcing_seconds",
    "parley_kafka_publish_seconds_count": "announcings",
    "parley_send_seconds_sum": "answering_seconds",
    "parley_send_seconds_count": "answers",
}
MAKERS = 8
FILL_AT_ONCE = 2_000
IDLE_SHARE = 0.1

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Person:
    user_id: UserId
    token: str


class Services(Protocol):
    """The processes that are measured."""

    @property
    def url(self) -> str: ...

    @property
    def metrics(self) -> tuple[str, ...]: ...

    @property
    def pids(self) -> dict[str, int]: ...

    def renew_web(self) -> None: ...


class Stage:
    """A running Parley, and a process of it that makes users and chats by its own services.

    `processes` are those of the engines, as far as they are ours.
    """

    def __init__(self, parts: "Web", services: Services, processes: dict[str, int], *, engines: str) -> None:
        self._parts = parts
        self._services = services
        self._engines = processes
        self.clients = ClientProcesses()
        self._processes: dict[str, psutil.Process] = {}
        self._look()
        self.url = services.url
        self.engines = engines

    def renew_web(self) -> None:
        """For who measures memory: a process has a past, and fills the holes that it has left."""
        self._services.renew_web()
        self._look()

    def _look(self) -> None:
        pids = {**self._engines, **self._services.pids}
        self._processes = {name: psutil.Process(pid) for name, pid in pids.items()}

    def people(self, count: int) -> list[Person]:
        with ThreadPoolExecutor(MAKERS) as pool:
            return list(pool.map(lambda _: self._person(), range(count)))

    def _person(self) -> Person:
        from accounts.domain import User  # noqa: PLC0415 - after django.setup()
        from accounts.stores.users import UserStore  # noqa: PLC0415

        parts = self._parts
        user_id, now = parts.clients.ids.user(), parts.clients.clock.now()
        number = f"+49151{secrets.randbelow(10**9):09d}"
        UserStore(parts.clients.database).create(User(user_id, number, True, "Somebody", now, now))
        return Person(user_id, parts.accounts.sessions.open(user_id=user_id, device_id="bench").access_token)

    def direct(self, one: Person, other: Person) -> ChatId:
        return self._create("direct", None, one, [other])

    def directs(self, pairs: Sequence[tuple[Person, Person]]) -> list[ChatId]:
        with ThreadPoolExecutor(MAKERS) as pool:
            return list(pool.map(lambda pair: self.direct(*pair), pairs))

    def group(self, owner: Person, others: Sequence[Person]) -> ChatId:
        return self._create("group", "Bench", owner, others)

    def _create(self, kind: str, name: str | None, creator: Person, others: Sequence[Person]) -> ChatId:
        from chats.domain import ChatDraft, ChatType  # noqa: PLC0415 - after django.setup()

        draft = ChatDraft(type=ChatType(kind), name=name, member_ids=tuple(other.user_id for other in others))
        return self._parts.chats.creation.create(creator.user_id, draft).state.chat.chat_id

    def latest(self, chat_id: str) -> int:
        """The last sequence of the chat."""
        return self._parts.chats.posting.find_counter(ChatId(chat_id)) or 0

    def fill(self, chat_id: str, sender_id: str, count: int, report: Report = lambda _line: None) -> None:
        """Messages that are there before the measurement, `FILL_AT_ONCE` under way at a time."""
        from messaging.domain import Draft  # noqa: PLC0415 - after django.setup()

        begun, told = time.monotonic(), time.monotonic()
        for done in range(0, count, FILL_AT_ONCE):
            drafts = (
                Draft(ChatId(chat_id), UserId(sender_id), f"{secrets.randbelow(10**15)}.0", BODY.decode())
                for _ in range(min(FILL_AT_ONCE, count - done))
            )
            for answer in [self._parts.messaging.committer.submit(draft) for draft in drafts]:
                answer.result(120)
            if time.monotonic() - told > 5:
                told = time.monotonic()
                report(f"    {done + FILL_AT_ONCE:,} of {count:,}, {(done + FILL_AT_ONCE) / (told - begun):,.0f}/s")

    def settle(self, *, within: float = 60.0) -> None:
        """Return when `web` and `fanout` have done what was left to do."""
        deadline = time.monotonic() + within
        for name in ("web", "fanout"):
            while self._processes[name].cpu_percent(0.3) / 100 > IDLE_SHARE and time.monotonic() < deadline:
                pass

    def metering(self) -> AbstractAsyncContextManager[Meter]:
        """`async with stage.metering() as meter:` around the measured window."""
        others = "others" if self._engines else "others_and_engines"
        return metering(self.cpu, self.counters, queued=self.queued, others=others)

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU that each process has used so far; `client` is this one, with those that help it."""
        used = {name: cpu_of(process) for name, process in self._processes.items()}
        return {**used, "client": self.clients.cpu()}

    def queued(self) -> dict[str, float]:
        """Seconds for which each process's first thread has waited for a processor so far, where that is told."""
        found = {name: queued_of(process) for name, process in self._processes.items()}
        return {name: waited for name, waited in found.items() if waited is not None}

    def memory(self, name: str) -> int:
        return int(self._processes[name].memory_info().rss)

    def counters(self) -> dict[str, float]:
        """What the processes have counted so far: DynamoDB requests and items, Redis commands."""
        totals = dict.fromkeys(COUNTERS.values(), 0.0)
        for url in self._services.metrics:
            with urlopen(url, timeout=60) as answer:  # noqa: S310 - loopback
                for line in answer.read().decode().splitlines():
                    for start, name in COUNTERS.items():
                        if line.startswith(start):
                            totals[name] += float(line.rpartition(" ")[2])
        info: dict[str, int] = self._parts.clients.redis.info("stats")
        return {**totals, "redis_commands": float(info["total_commands_processed"])}
