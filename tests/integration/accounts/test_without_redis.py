"""Without Redis: logins fail, existing sessions keep working."""

from collections.abc import Iterator

import pytest

from accounts.services.guard import LoginPolicy
from accounts.services.sessions import TokenPair
from engines.redis import RedisEngine
from foundation.kernel.ids import UserId
from foundation.stores.dynamodb import Database
from foundation.stores.redis.client import RedisOptions, connect
from tests.integration.accounts.conftest import ADA, App, running_app


@pytest.fixture
def app(database: Database) -> Iterator[App]:
    """Redis was available at start-up and is not any more."""
    with RedisEngine() as url:
        client = connect(RedisOptions(url=url, connect_timeout=10, answer_timeout=10))
        client.ping()
    with running_app(database, client, policy=LoginPolicy(), loopback_is_free=True) as app:
        yield app
    client.close()


@pytest.fixture
def tokens(app: App) -> TokenPair:
    """Tokens of a session that was opened while Redis was available."""
    user, _ = app.accounts.login._registration.find_or_create(ADA, display_name="Ada")
    return app.accounts.sessions.open(user_id=UserId(user.user_id), device_id="laptop")


class TestLoginFailsClosed:
    def test_no_code_is_sent(self, app: App) -> None:
        answer = app.post("/api/auth/request-code", {"phone_number": ADA})
        assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
        assert answer["Retry-After"]
        assert app.sms.messages == []

    def test_no_code_is_tried(self, app: App) -> None:
        answer = app.post("/api/auth/verify", {"phone_number": ADA, "code": "123456", "device_id": "laptop"})
        assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")

    def test_no_number_is_looked_up(self, app: App, tokens: TokenPair) -> None:
        answer = app.post("/api/users/lookup", {"phone_number": ADA}, tokens.access_token)
        assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")


class TestReadsFailOpen:
    def test_reads_go_on(self, app: App, tokens: TokenPair) -> None:
        for path in ("/api/users/me", "/api/sessions"):
            assert app.get(path, tokens.access_token).status_code == 200

    def test_tokens_are_refreshed(self, app: App, tokens: TokenPair) -> None:
        assert app.post("/api/auth/refresh", {"refresh_token": tokens.refresh_token}).status_code == 200

    def test_sessions_are_revoked(self, app: App, tokens: TokenPair) -> None:
        assert app.post("/api/auth/logout", {}, tokens.access_token).status_code == 204
        assert app.get("/api/users/me", tokens.access_token).status_code == 401
