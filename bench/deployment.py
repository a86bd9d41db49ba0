"""A running Parley as the workloads see it: it creates users and chats and reads what the processes use."""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.request import urlopen

import psutil

from bench.frames import BODY
from bench.processes import ClientProcesses, cpu_of, run_queue_wait_of
from bench.window import Window, measure_window
from engines.dynamolite.delay import AnswerDelay
from foundation.kernel.ids import ChatId, UserId

if TYPE_CHECKING:
    from config.wiring.web import Web
    from foundation.stores.kafka import KafkaOptions
    from messaging.domain import Draft

_CANCELLED = 'parley_dynamodb_requests_total{operation="TransactWriteItems",outcome="TransactionCanceledException"}'
COUNTERS = {
    "parley_dynamodb_requests_total{": "dynamodb_requests",
    "parley_dynamodb_items_total{": "dynamodb_items",
    "parley_commit_batch_messages_sum": "committed_messages",
    "parley_commit_batch_messages_count": "commits",
    _CANCELLED: "cancelled_transactions",
    "parley_transactions_cancelled_total{": "cancelled_commits",
    'parley_dynamodb_request_seconds_sum{operation="TransactWriteItems"}': "transaction_seconds",
    'parley_dynamodb_request_seconds_count{operation="TransactWriteItems"}': "transactions",
    "parley_kafka_publish_seconds_sum": "publish_seconds",
    "parley_kafka_publish_seconds_count": "publishes",
    "parley_send_seconds_sum": "send_seconds",
    "parley_send_seconds_count": "sends",
}
SOCKETS = "parley_gateway_connections "
SETUP_THREADS = 8
FILL_BATCH = 2_000
IDLE_CPU_SHARE = 0.1

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class User:
    user_id: UserId
    token: str


class Services(Protocol):
    """The processes that are measured."""

    @property
    def engines(self) -> str: ...

    @property
    def url(self) -> str: ...

    @property
    def metrics(self) -> dict[str, str]: ...

    @property
    def pids(self) -> dict[str, list[int]]: ...

    def restart_web(self, *, count: int = 1) -> None: ...

    def delay_store(self, delay: AnswerDelay | None) -> None: ...


class Deployment:
    """Creates users and chats in this process, through Parley's own services."""

    def __init__(self, web: "Web", services: Services) -> None:
        self._web = web
        self._services = services
        self.clients = ClientProcesses()
        self._processes: dict[str, list[psutil.Process]] = {}
        self._find_processes()
        self.url = services.url
        self.engines = services.engines

    def restart_web(self) -> None:
        """Give a memory measurement a fresh process: an old one reuses freed memory and hides growth."""
        self._services.restart_web()
        self._find_processes()

    @contextmanager
    def scaled(self, *, webs: int, store_delay: AnswerDelay) -> Iterator[None]:
        """For the length of the block: `webs` processes behind the port, and an embedded store whose answers wait."""
        self._services.delay_store(store_delay)
        self._services.restart_web(count=webs)
        self._find_processes()
        try:
            yield
        finally:
            self._services.delay_store(None)
            self.restart_web()

    def _find_processes(self) -> None:
        self._processes = {name: list(map(psutil.Process, pids)) for name, pids in self._services.pids.items()}

    def create_users(self, count: int) -> list[User]:
        with ThreadPoolExecutor(SETUP_THREADS) as pool:
            return list(pool.map(lambda _: self._create_user(), range(count)))

    def _create_user(self) -> User:
        from accounts import domain  # noqa: PLC0415 - after django.setup()
        from accounts.stores.users import UserStore  # noqa: PLC0415

        web = self._web
        user_id, now = web.clients.ids.user(), web.clients.clock.now()
        number = f"+49151{secrets.randbelow(10**9):09d}"
        UserStore(web.clients.database).create(domain.User(user_id, number, True, "Somebody", now, now))
        return User(user_id, web.accounts.sessions.open(user_id=user_id, device_id="bench").access_token)

    def create_direct_chats(self, pairs: Sequence[tuple[User, User]]) -> list[ChatId]:
        with ThreadPoolExecutor(SETUP_THREADS) as pool:
            return list(pool.map(lambda pair: self._create_chat("direct", None, pair[0], pair[1:]), pairs))

    def create_group(self, owner: User, others: Sequence[User]) -> ChatId:
        return self._create_chat("group", "Bench", owner, others)

    def _create_chat(self, kind: str, name: str | None, creator: User, others: Sequence[User]) -> ChatId:
        from chats.domain import ChatDraft, ChatType  # noqa: PLC0415 - after django.setup()

        draft = ChatDraft(type=ChatType(kind), name=name, member_ids=tuple(other.user_id for other in others))
        return self._web.chats.creation.create(creator.user_id, draft).state.chat.chat_id

    @property
    def kafka_options(self) -> "KafkaOptions":
        return self._web.clients.kafka_options

    def last_sequence(self, chat_id: str) -> int:
        posting = self._web.chats.posting
        found = self._web.clients.database.batch_get(posting.counter_lookup([ChatId(chat_id)]))
        return posting.counters_among(found).get(ChatId(chat_id), 0)

    def fill(self, chat_id: str, sender_id: str, count: int, report: Report = lambda _line: None) -> None:
        """Store `count` messages before the measurement, `FILL_BATCH` in flight at a time."""
        from messaging.domain import Draft  # noqa: PLC0415 - after django.setup()

        started, reported = time.monotonic(), time.monotonic()
        for done in range(0, count, FILL_BATCH):
            drafts = (
                Draft(ChatId(chat_id), UserId(sender_id), f"{secrets.randbelow(10**15)}.0", BODY.decode())
                for _ in range(min(FILL_BATCH, count - done))
            )
            self._web.clients.loop.run(self._send_all(drafts), timeout=120)
            if time.monotonic() - reported > 5:
                reported = time.monotonic()
                report(f"    {done + FILL_BATCH:,} of {count:,}, {(done + FILL_BATCH) / (reported - started):,.0f}/s")

    async def _send_all(self, drafts: "Iterable[Draft]") -> None:
        await asyncio.gather(*[self._web.messaging.committer.submit(draft) for draft in drafts])

    def wait_until_idle(self, *, timeout: float = 60.0) -> None:
        """Return when `web` and `fanout` have finished pending work, or after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        for process in (*self._processes["web"], *self._processes["fanout"]):
            while process.cpu_percent(0.3) / 100 > IDLE_CPU_SHARE and time.monotonic() < deadline:
                pass

    def measure_window(self) -> AbstractAsyncContextManager[Window]:
        others = "others" if self.engines == "embedded" else "others_and_engines"
        return measure_window(self.cpu, self.counters, run_queue_wait=self.run_queue_wait, others=others)

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU used so far by the processes of each kind, and by those of the client."""
        used = {name: sum(map(cpu_of, processes)) for name, processes in self._processes.items()}
        return {**used, "client": self.clients.cpu()}

    def run_queue_wait(self) -> dict[str, float]:
        """Seconds the main threads of each kind have waited for a processor so far, where the kernel reports it."""
        found = {name: [run_queue_wait_of(each) for each in processes] for name, processes in self._processes.items()}
        return {name: sum(filter(None, waited)) for name, waited in found.items() if None not in waited}

    def memory(self, name: str) -> int:
        return sum(process.memory_info().rss for process in self._processes[name])

    def sockets(self) -> dict[str, int]:
        """How many sockets each `web` process holds."""
        webs = {name: url for name, url in self._services.metrics.items() if name.startswith("web")}
        return {name: int(_scrape(url, {SOCKETS: SOCKETS})[SOCKETS]) for name, url in webs.items()}

    def counters(self) -> dict[str, float]:
        """Totals so far over the processes' metrics endpoints, and the commands Redis has processed."""
        totals = dict.fromkeys(COUNTERS.values(), 0.0)
        for url in self._services.metrics.values():
            for name, value in _scrape(url, COUNTERS).items():
                totals[name] += value
        info: dict[str, int] = self._web.clients.redis.info("stats")
        return {**totals, "redis_commands": float(info["total_commands_processed"])}


def _scrape(url: str, samples: Mapping[str, str]) -> dict[str, float]:
    """Sum the samples of a metrics endpoint that begin with a key of `samples`, under its value."""
    found = dict.fromkeys(samples.values(), 0.0)
    with urlopen(url, timeout=60) as answer:  # noqa: S310 - loopback
        for line in answer.read().decode().splitlines():
            for start, name in samples.items():
                if line.startswith(start):
                    found[name] += float(line.rpartition(" ")[2])
    return found
