"""The whole system as processes: engines, any number of `web` and `fanout`, each can be killed and restarted.

`user` creates users by the services of accounts, because two hundred logins by phone would take every run four seconds.
`log_in` logs in over REST.
"""

import itertools
import json
import os
import secrets
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

import httpx
import jwt
import psutil

from accounts.services.refresh_tokens import RefreshTokens
from accounts.services.registration import Registration
from accounts.services.sessions import Sessions, TokenMint
from accounts.services.tokens import ALGORITHM, AUDIENCE, ISSUER, AccessTokens
from accounts.services.verification import TokenVerifier
from accounts.stores.sessions import SessionStore
from accounts.stores.users import UserStore
from chats.services.posting import Posting
from chats.stores.counters import CounterStore
from chats.stores.memberships import MembershipStore
from config.wiring.commands import TABLES
from delivery.stores.watermarks import WatermarkStore
from engines.health import get_status
from engines.ports import LOOPBACK, ReservedPort
from engines.processes import PROJECT_ROOT, ChildProcess, stop_together
from engines.redis import RedisEngine
from foundation.kernel.clock import SystemClock
from foundation.kernel.ids import ChatId, IdFactory, SessionId, UserId
from foundation.stores.dynamodb import Database, DynamoDBOptions, schema
from foundation.stores.kafka import EventProducer, KafkaOptions
from foundation.stores.redis.client import RedisOptions, connect
from messaging.domain import Message
from messaging.stores.messages import MessageStore
from tests.doubles import eventually
from tests.engines import choice
from tests.engines.choice import AnyKafka

READY_TIMEOUT = 40.0
STOP_TIMEOUT = 10.0
TRACEBACK_LINES = 60
# How many gateways a system has unless its test says otherwise: `WEB=2 pytest tests/e2e`. Where a test needs several,
# this only adds to them. `test_edge` and `test_socket_abuse` measure the limits of one process, the first, whatever
# others there are; `test_walk` starts one, as docs/architecture.md describes the way of a message through one.
WEBS = int(os.environ.get("WEB") or 1)
SIGNING_KEY = secrets.token_urlsafe(48)
# No send limit, except in the tests of the limit.
SETTINGS = {"SEND_RATE": "100000", "SEND_BURST": "100000", "KAFKA_SESSION_TIMEOUT_MS": "6000", "TOKEN_GRACE": "1"}


@dataclass(frozen=True, slots=True)
class Device:
    """A user's login on one device."""

    user_id: UserId
    session_id: SessionId
    token: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


class Service:
    """A process of Parley. After its end it can be restarted with the same command and environment.

    `root` is the checkout that it runs from.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], root: Path = PROJECT_ROOT) -> None:
        self.lines: list[str] = []
        self._command = (sys.executable, str(root / "manage.py"), *command)
        self._environment = environment
        self.process = self._launch()

    def restart(self) -> None:
        self.process = self._launch()

    def kill(self) -> None:
        """Send SIGKILL: the process finishes nothing."""
        self.process.kill()
        self.process.wait()

    def terminate(self) -> None:
        self.process.terminate()

    def freeze(self) -> None:
        """Return when the process has stopped."""
        self.process.signal(signal.SIGSTOP)
        eventually(lambda: psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED)

    def thaw(self) -> None:
        self.process.signal(signal.SIGCONT)

    def wait(self) -> int:
        eventually(lambda: self.process.status is not None, within=STOP_TIMEOUT)
        return self.process.wait()

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    @property
    def failures(self) -> list[str]:
        """Each logged traceback with the lines around it."""
        found = [at for at, line in enumerate(self.lines) if "Traceback" in line]
        return ["\n".join(self.lines[max(at - 3, 0) : at + TRACEBACK_LINES]) for at in found]

    def _launch(self) -> ChildProcess:
        return ChildProcess(self._command[2], self._command, environment=self._environment, log=self.lines.append)


class Fanout(Service):
    def __init__(self, port: ReservedPort, environment: Mapping[str, str], root: Path) -> None:
        port.hand_over()
        self.port = port.number
        self._metrics = f"http://{LOOPBACK}:{port.number}/metrics"
        super().__init__(("fanout", "--metrics-port", str(port.number)), environment, root)

    def metric(self, sample: str) -> float:
        return _metric(self._metrics, sample)


class Web(Service):
    def __init__(self, port: ReservedPort, environment: Mapping[str, str], root: Path) -> None:
        port.hand_over()
        self.port = port.number
        super().__init__(("web", "--port", str(port.number)), environment, root)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def socket_url(self) -> str:
        return f"ws://{LOOPBACK}:{self.port}/ws"

    def metric(self, sample: str) -> float:
        return _metric(f"{self.url}/metrics", sample)

    def wait_until_ready(self) -> None:
        def is_ready() -> bool:
            assert self.process.status is None, f"web ended before it was ready:\n{self.log}"
            return get_status(self.port, "/readyz") == HTTPStatus.OK

        eventually(is_ready, within=READY_TIMEOUT)


def _metric(url: str, sample: str) -> float:
    """A sample by its name and labels; 0 before it first counts."""
    lines = httpx.get(url).text.splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{sample} ")), 0.0)


class System:
    """A context manager that ends its processes, whatever a test did to them.

    Each of its `webs` has an address of its own. `settings` are added to the environment of every process. A `kafka`
    that runs already is not stopped.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        webs: int = WEBS,
        fanouts: int = 1,
        durable: bool = False,
        kafka: AnyKafka | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._data_dir = data_dir
        self.kafka = kafka or choice.make_kafka()
        self._size = (webs, fanouts)
        self._durable = durable
        self._settings = dict(settings or {})
        self._exit = ExitStack()
        self._phone_numbers = (f"+4915112{number:06d}" for number in itertools.count(345678))
        self.webs: list[Web] = []
        self.fanouts: list[Fanout] = []

    @property
    def environment(self) -> dict[str, str]:
        """That of its processes, for an operator's commands."""
        return dict(self._environment)

    def code_for(self, number: str) -> str:
        """The last login code that was sent to a number."""
        lines = (self._data_dir / "sms.jsonl").read_text().splitlines()
        return str(next(sms["code"] for sms in map(json.loads, reversed(lines)) if sms["to"] == number))

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            self._start_engines(starting)
            starting.callback(self._stop)
            self._make_stores()
            webs, fanouts = self._size
            for _ in range(fanouts):
                self.start_fanout()
            for _ in range(webs):
                self.start_web(wait=False)
            for web in self.webs:
                web.wait_until_ready()
            self._exit = starting.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    # Processes

    def start_web(self, root: Path = PROJECT_ROOT, /, *, wait: bool = True, **settings: str) -> Web:
        """Start another gateway, with `settings` in its environment."""
        port = ReservedPort()
        self._exit.callback(port.release)
        web = Web(port, {**self._environment, **settings}, root)
        self.webs.append(web)
        if wait:
            web.wait_until_ready()
        return web

    def start_fanout(self, *, root: Path = PROJECT_ROOT) -> Fanout:
        port = ReservedPort()
        self._exit.callback(port.release)
        fanout = Fanout(port, self._environment, root)
        self.fanouts.append(fanout)
        return fanout

    # People

    def log_in(self, phone_number: str | None = None, *, device_id: str = "phone") -> Device:
        """Log in over REST with a code by SMS."""
        number = phone_number or next(self._phone_numbers)
        with httpx.Client(base_url=self.webs[0].url) as http:
            http.post("/api/auth/request-code", json={"phone_number": number}).raise_for_status()
            code = self.code_for(number)
            answer = http.post(
                "/api/auth/verify", json={"phone_number": number, "code": code, "device_id": device_id}
            ).raise_for_status()
        login = answer.json()
        return Device(login["user"]["user_id"], login["session_id"], login["access_token"])

    def user(self) -> Device:
        user, _ = self._registration.find_or_create(next(self._phone_numbers), display_name=None)
        return self._open(user.user_id)

    def users(self, count: int) -> list[Device]:
        return [self.user() for _ in range(count)]

    def another_device(self, device: Device) -> Device:
        return self._open(device.user_id)

    def token(self, device: Device, *, lasting: timedelta) -> str:
        """An access token as the server would sign it, with another lifetime."""
        now = datetime.now(UTC)
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": device.user_id,
            "sid": device.session_id,
            "iat": int(now.timestamp()),
            "exp": int((now + lasting).timestamp()),
        }
        return jwt.encode(claims, SIGNING_KEY, ALGORITHM, headers={"kid": "e2e"})

    # Chats

    def direct_chat(self, one: Device, other: Device) -> ChatId:
        return self._create_chat(one, {"type": "direct", "members": [other.user_id]})

    def group(self, owner: Device, members: Sequence[Device]) -> ChatId:
        body = {"type": "group", "name": "Friends", "members": [member.user_id for member in members]}
        return self._create_chat(owner, body)

    def rest(self, device: Device, method: str, path: str, **body: Any) -> Any:
        """The response to a request to the first gateway, which must succeed."""
        answer = httpx.request(
            method, f"{self.webs[0].url}{path}", headers=device.headers, json=body or None, timeout=20.0
        )
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def stored(self, chat_id: ChatId) -> list[Message]:
        """The chat's messages in DynamoDB, ascending."""
        latest = self.counters.find(chat_id) or 0
        return [
            message
            for first in range(1, latest + 1, 100)
            for message in self.database.loop.run(self.messages.list_between(chat_id, first, min(first + 99, latest)))
        ]

    def require_no_failures(self) -> None:
        """Fail if a process has logged a traceback."""
        failures = [failure for service in (*self.webs, *self.fanouts) for failure in service.failures]
        assert not failures, "\n\n".join(failures)

    def _create_chat(self, owner: Device, body: dict[str, Any]) -> ChatId:
        return ChatId(self.rest(owner, "POST", "/api/chats", **body)["chat_id"])

    # Starting and stopping

    def _start_engines(self, starting: ExitStack) -> None:
        self.redis = RedisEngine()
        self.dynamodb = choice.make_dynamodb(self._data_dir if self._durable else None)
        self._environment = {
            "DJANGO_SETTINGS_MODULE": "config.settings.embedded",
            "DATA_DIR": str(self._data_dir),
            "SECRET_KEY": secrets.token_urlsafe(48),
            "JWT_KEYS": f"e2e:{SIGNING_KEY}",
            "PYTHONUNBUFFERED": "1",
            "PATH": os.environ.get("PATH", ""),
            **SETTINGS,
            **self._settings,
        }
        for engine in (self.redis, self.kafka, self.dynamodb):
            if not engine.is_started:
                starting.enter_context(engine)
            self._environment |= engine.environment()

    def _make_stores(self) -> None:
        clock = SystemClock()
        self.ids = IdFactory(clock)
        self.database = Database(DynamoDBOptions(region="us-east-1", endpoint_url=self.dynamodb.endpoint))
        schema.create_missing(self.database, TABLES, report=lambda line: None)
        self.memberships, self.counters = MembershipStore(self.database), CounterStore(self.database)
        self.posting = Posting(database=self.database, memberships=self.memberships, counters=self.counters)
        self.messages, self._watermarks = MessageStore(self.database.on_loop), WatermarkStore(self.database.on_loop)
        self.redis_client = connect(RedisOptions(url=self.redis.endpoint))
        self.producer = EventProducer(KafkaOptions(bootstrap_servers=self.kafka.endpoint))
        access, store = AccessTokens({"e2e": SIGNING_KEY}, clock=clock), SessionStore(self.database)
        self._registration = Registration(UserStore(self.database), ids=self.ids, clock=clock)
        self._sessions = Sessions(
            store=store,
            mint=TokenMint(access=access, refresh=RefreshTokens(secrets.token_urlsafe(48))),
            verifier=TokenVerifier(tokens=access, sessions=store, clock=clock),
            notices=_NoNotices(),
            ids=self.ids,
            clock=clock,
        )

    def watermark(self, user_id: UserId, chat_id: ChatId) -> int:
        """How far a chat has arrived at a user."""
        return self.database.loop.run(self._watermarks.get(user_id, chat_id)).delivered

    def _open(self, user_id: UserId) -> Device:
        pair = self._sessions.open(user_id=user_id, device_id="phone")
        return Device(user_id, pair.session_id, pair.access_token)

    def _stop(self) -> None:
        services = [*self.webs, *self.fanouts]
        for service in services:
            service.thaw()
        stop_together([service.process for service in services], grace=STOP_TIMEOUT)
        if hasattr(self, "producer"):
            self.producer.close()
            self.redis_client.close()
            self.database.loop.run(self.database.on_loop.wire.close())


class _NoNotices:
    """Sessions are opened here and revoked over REST."""

    def publish_revocation(self, session_ids: Sequence[SessionId]) -> None:
        raise AssertionError("sessions are revoked over REST")
