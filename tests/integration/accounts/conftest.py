"""Accounts on real engines, with a clock, an SMS sender and a notice publisher that tests can inspect."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest
import redis
from django.test import override_settings
from django.urls import path

from accounts.api.urls import routes
from accounts.errors import SmsUnavailable
from accounts.parts import Accounts, AccountsOptions, Engines, assemble
from accounts.services.guard import LoginPolicy
from accounts.services.sms import CodeMessage
from accounts.services.verification import TokenVerifier
from accounts.stores import TABLES
from foundation.kernel.caller import Caller
from foundation.kernel.cursors import CursorCodec
from foundation.kernel.ids import IdFactory, SessionId, UserId
from foundation.kernel.loops import shared_loop
from foundation.rest.addresses import ClientAddress
from foundation.rest.assets import AssetView
from foundation.rest.schema import DocsView, SchemaView
from foundation.rest.throttling import READS, WRITES
from foundation.stores.dynamodb import Database, DynamoDBOptions, schema
from foundation.stores.errors import StoreUnavailable
from foundation.stores.redis.limits import Limit
from tests.doubles import SettableClock
from tests.rest import RestClient, public_limits, user_limits

PROXIES = ["10.0.0.0/8"]
PUBLIC_BURST = 100
"""Requests of an address without a user."""
ADA = "+14155550123"
BOB = "+447911123456"


class RecordingSmsSender:
    """Records messages instead of sending them. Raises while `failing`."""

    def __init__(self) -> None:
        self.messages: list[CodeMessage] = []
        self.failing = False

    def send(self, message: CodeMessage) -> None:
        if self.failing:
            raise SmsUnavailable
        self.messages.append(message)

    def code_for(self, phone_number: str) -> str:
        return [message.code for message in self.messages if message.to == phone_number][-1]


class RecordingNotices:
    """Records what published notices tell. Raises while `failing`."""

    def __init__(self) -> None:
        self.session_ids: list[SessionId] = []
        self.suspensions: list[tuple[UserId, bool]] = []
        self.privacy: list[UserId] = []
        self.failing = False

    def publish_revocation(self, session_ids: Sequence[SessionId]) -> None:
        if self.failing:
            raise StoreUnavailable("no Redis")
        self.session_ids += session_ids

    def publish_suspension(self, user_id: UserId, *, is_suspended: bool) -> None:
        if self.failing:
            raise StoreUnavailable("no Redis")
        self.suspensions.append((user_id, is_suspended))

    def publish_privacy(self, user_id: UserId) -> None:
        if self.failing:
            raise StoreUnavailable("no Redis")
        self.privacy.append(user_id)


@dataclass
class App:
    """The services of accounts, their test doubles and an HTTP client."""

    accounts: Accounts
    clock: SettableClock
    sms: RecordingSmsSender
    notices: RecordingNotices
    redis: "redis.Redis"
    client: RestClient = field(default_factory=RestClient)

    def post(self, path: str, body: dict[str, Any], token: str | None = None, **extra: Any) -> Any:
        return self.client.post(path, body, format="json", headers=_bearer(token), **extra)

    def get(self, path: str, token: str | None = None) -> Any:
        return self.client.get(path, headers=_bearer(token))

    def patch(self, path: str, body: dict[str, Any], token: str | None = None) -> Any:
        return self.client.patch(path, body, format="json", headers=_bearer(token))

    def delete(self, path: str, token: str | None = None) -> Any:
        return self.client.delete(path, headers=_bearer(token))

    def code(self, phone_number: str = ADA) -> str:
        assert self.post("/api/auth/request-code", {"phone_number": phone_number}).status_code == 202
        return self.sms.code_for(phone_number)

    def log_in(self, phone_number: str = ADA, device_id: str = "laptop", **more: str) -> dict[str, Any]:
        body = {"phone_number": phone_number, "code": self.code(phone_number), "device_id": device_id, **more}
        answer = self.post("/api/auth/verify", body)
        assert answer.status_code in (200, 201), answer.content
        return dict(answer.json())


def _bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def verify(verifier: TokenVerifier, login: dict[str, Any]) -> Caller:
    return shared_loop().run(verifier.verify(login["access_token"]))


def verify_now(verifier: TokenVerifier, login: dict[str, Any]) -> Caller:
    return shared_loop().run(verifier.verify_now(login["access_token"]))


@pytest.fixture
def policy() -> LoginPolicy:
    return LoginPolicy()


@pytest.fixture
def loopback_is_free() -> bool:
    return True


@pytest.fixture
def database(dynamodb_options: DynamoDBOptions) -> Database:
    """The two tables of accounts, empty."""
    database = Database(dynamodb_options)
    schema.create_missing(database, TABLES, report=lambda line: None)
    return database


@pytest.fixture
def app(database: Database, redis_client: "redis.Redis", policy: LoginPolicy, loopback_is_free: bool) -> Iterator[App]:
    with running_app(database, redis_client, policy=policy, loopback_is_free=loopback_is_free) as app:
        yield app


@contextmanager
def running_app(
    database: Database, redis_client: "redis.Redis", *, policy: LoginPolicy, loopback_is_free: bool
) -> Iterator[App]:
    clock, sms, notices = SettableClock(), RecordingSmsSender(), RecordingNotices()
    accounts = assemble(
        Engines(database=database, redis=redis_client, sms=sms, notices=notices),
        options=AccountsOptions(
            secret="a secret of the tests",
            jwt_keys={"new": "n" * 64, "old": "o" * 64},
            loopback_is_free=loopback_is_free,
            policy=policy,
        ),
        clock=clock,
        ids=IdFactory(clock),
    )
    with override_settings(ROOT_URLCONF=_urls(accounts, redis_client)):
        yield App(accounts=accounts, clock=clock, sms=sms, notices=notices, redis=redis_client)


def _urls(accounts: Accounts, redis_client: "redis.Redis") -> ModuleType:
    urls = ModuleType("urls_of_accounts")
    limits = user_limits(redis_client, Limit(READS, rate=0.01, burst=30), Limit(WRITES, rate=0.01, burst=100))
    urls.urlpatterns = [  # type: ignore[attr-defined]
        path("api/schema", SchemaView.as_view()),
        path("api/docs", DocsView.as_view()),
        path("static/<path:path>", AssetView.as_view()),
        *routes(
            accounts,
            cursors=CursorCodec("a secret"),
            address_of=ClientAddress(PROXIES),
            limits=limits,
            public_limits=public_limits(redis_client, burst=PUBLIC_BURST, proxies=PROXIES),
        ),
    ]
    urls.handler404 = "foundation.rest.problems.not_found"  # type: ignore[attr-defined]
    return urls
