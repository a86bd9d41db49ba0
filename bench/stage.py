"""Where the workloads play: the engines with one `web` and one `fanout`, and as many users and chats as wanted.

The engines are embedded ones, or those of the usual environment variables when `DYNAMODB_ENDPOINT_URL`,
`KAFKA_BOOTSTRAP_SERVERS` and `REDIS_URL` are all set.
"""

import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import django
import psutil

from config.embedded.dynamodb import DynamoDbEngine
from config.embedded.kafka import KafkaEngine
from config.embedded.ports import LOOPBACK, ReservedPort
from config.embedded.probe import get_status
from config.embedded.processes import PROJECT_ROOT, ChildProcess, ignore_line
from config.embedded.redis import RedisEngine

if TYPE_CHECKING:
    from config.kernel.ids import ChatId, UserId
    from config.wiring import Wiring

MANAGE = (sys.executable, str(PROJECT_ROOT / "manage.py"))
EXTERNAL = ("DYNAMODB_ENDPOINT_URL", "KAFKA_BOOTSTRAP_SERVERS", "REDIS_URL")


@dataclass(frozen=True, slots=True)
class Person:
    user_id: "UserId"
    token: str


class Stage:
    """A running Parley, and a process of it that makes users and chats by its own services."""

    def __init__(self, parts: "Wiring", port: int, metrics_port: int, processes: dict[str, int]) -> None:
        self._parts = parts
        self._metrics = (f"http://{LOOPBACK}:{port}/metrics", f"http://{LOOPBACK}:{metrics_port}/metrics")
        self._processes = {name: psutil.Process(pid) for name, pid in processes.items()}
        self.url = f"ws://{LOOPBACK}:{port}/ws"

    def people(self, count: int) -> list[Person]:
        from accounts.domain import User  # noqa: PLC0415 - after django.setup()
        from accounts.stores.users import UserStore  # noqa: PLC0415

        parts, store = self._parts, UserStore(self._parts.database)
        found = []
        for _ in range(count):
            user_id, now = parts.ids.user(), parts.clock.now()
            number = f"+49151{secrets.randbelow(10**9):09d}"
            store.create(User(user_id, number, True, "Somebody", now, now))
            pair = parts.accounts.sessions.open(user_id=user_id, device_id="bench")
            found.append(Person(user_id, pair.access_token))
        return found

    def direct(self, one: Person, other: Person) -> "ChatId":
        return self._create("direct", None, one, [other])

    def group(self, owner: Person, others: Sequence[Person]) -> "ChatId":
        return self._create("group", "Bench", owner, others)

    def _create(self, kind: str, name: str | None, creator: Person, others: Sequence[Person]) -> "ChatId":
        from chats.domain import ChatDraft, ChatType  # noqa: PLC0415 - after django.setup()

        draft = ChatDraft(type=ChatType(kind), name=name, member_ids=tuple(other.user_id for other in others))
        return self._parts.chat_creation.create(creator.user_id, draft).state.chat.chat_id

    def fill(self, chat_id: "ChatId", sender: Person, count: int) -> None:
        """Messages that are there before the measurement."""
        from messaging.domain import Draft  # noqa: PLC0415 - after django.setup()

        drafts = (Draft(chat_id, sender.user_id, secrets.token_hex(8), "x" * 120) for _ in range(count))
        answers = [self._parts.committer.submit(draft) for draft in drafts]
        for answer in answers:
            answer.result(120)

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU that each process has used so far; `client` is this one."""
        used = {name: sum(process.cpu_times()[:2]) for name, process in self._processes.items()}
        return {**used, "client": sum(psutil.Process().cpu_times()[:2])}

    def memory(self, name: str) -> int:
        return int(self._processes[name].memory_info().rss)

    def counters(self) -> dict[str, float]:
        """What the processes have counted so far: DynamoDB requests and items, Redis commands."""
        totals = {"dynamodb_requests": 0.0, "dynamodb_items": 0.0}
        for url in self._metrics:
            with urlopen(url, timeout=10) as answer:  # noqa: S310 - loopback
                for line in answer.read().decode().splitlines():
                    for name in totals:
                        if line.startswith(f"parley_{name}_total{{"):
                            totals[name] += float(line.rpartition(" ")[2])
        info: dict[str, int] = self._parts.redis.info("stats")
        return {**totals, "redis_commands": float(info["total_commands_processed"])}


@contextmanager
def running(report: "Report") -> Iterator[Stage]:
    with ExitStack() as stack:
        processes: dict[str, int] = {}
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parley-bench-")))
        environment = {
            "DJANGO_SETTINGS_MODULE": "config.settings.embedded",
            "DATA_DIR": str(directory),
            "SECRET_KEY": secrets.token_urlsafe(48),
            "SEND_RATE": "1000000",
            "SEND_BURST": "1000000",
            "LOG_LEVEL": "WARNING",
        }
        if all(os.environ.get(name) for name in EXTERNAL):
            report("engines of the environment")
        else:
            for engine in (DynamoDbEngine(data_dir=directory), KafkaEngine(), RedisEngine()):
                stack.enter_context(engine)
                environment |= engine.environment()
                processes[engine.name] = engine.process.pid
        os.environ.update(environment)
        web, fanout = stack.enter_context(ReservedPort(0)), stack.enter_context(ReservedPort(0))
        for port in (web, fanout):
            port.hand_over()
        _run("create_tables", environment)
        commands = {
            "web": ("web", "--port", str(web.number)),
            "fanout": ("fanout", "--metrics-port", str(fanout.number)),
        }
        for name, command in commands.items():
            child = ChildProcess(name, (*MANAGE, *command), environment=environment, log=_complain)
            stack.callback(_stop, child)
            processes[name] = child.pid
        _wait(lambda: get_status(web.number, "/readyz") == HTTPStatus.OK)
        _wait(lambda: get_status(fanout.number, "/metrics") == HTTPStatus.OK)
        django.setup()
        from config.wiring import wiring  # noqa: PLC0415 - after django.setup()

        yield Stage(wiring(), web.number, fanout.number, processes)


class Report:
    """Progress for whoever waits."""

    def __call__(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)  # noqa: T201 - the command's output


def _complain(line: str) -> None:
    if "WARNING" in line or "ERROR" in line or "Traceback" in line:
        Report()(line)


def _run(command: str, environment: dict[str, str]) -> None:
    child = ChildProcess(command, (*MANAGE, command), environment=environment, log=ignore_line)
    if child.wait() != 0:
        raise RuntimeError(f"manage.py {command} failed")


def _stop(child: ChildProcess) -> None:
    child.terminate()
    child.wait()


def _wait(condition: Callable[[], bool], *, within: float = 40.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the system did not become ready")
        time.sleep(0.05)
