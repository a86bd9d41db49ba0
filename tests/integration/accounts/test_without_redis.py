"""Without Redis: logins fail, existing sessions keep working."""

from collections.abc import Iterator

import pytest

from accounts.services.guard import LoginPolicy
from accounts.services.sessions import TokenPair
from engines.redis import RedisEngine
from foundation.kernel.ids import UserId
from foundation.stores.dynamodb import Database
from foundation.stores.redis.client import RedisOptions, connect
from tests.integration.accounts.conftest import ADA, Stage, on_stage


@pytest.fixture
def stage(database: Database) -> Iterator[Stage]:
    """Redis was available at start-up and is not any more."""
    with RedisEngine() as url:
        client = connect(RedisOptions(url=url, connect_timeout=10, answer_timeout=10))
        client.ping()
    with on_stage(database, client, policy=LoginPolicy(), loopback_is_free=True) as stage:
        yield stage
    client.close()


@pytest.fixture
def tokens(stage: Stage) -> TokenPair:
    """Tokens of a session that was opened while Redis was available."""
    user, _ = stage.accounts.login._registration.find_or_create(ADA, display_name="Ada")
    return stage.accounts.sessions.open(user_id=UserId(user.user_id), device_id="laptop")


class TestLoginFailsClosed:
    def test_no_code_is_sent(self, stage: Stage) -> None:
        answer = stage.post("/api/auth/request-code", {"phone_number": ADA})
        assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
        assert answer["Retry-After"]
        assert stage.outbox.messages == []

    def test_no_code_is_tried(self, stage: Stage) -> None:
        answer = stage.post("/api/auth/verify", {"phone_number": ADA, "code": "123456", "device_id": "laptop"})
        assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")

    def test_no_number_is_looked_up(self, stage: Stage, tokens: TokenPair) -> None:
        answer = stage.post("/api/users/lookup", {"phone_number": ADA}, tokens.access_token)
        assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")


class TestReadsFailOpen:
    def test_reads_go_on(self, stage: Stage, tokens: TokenPair) -> None:
        for path in ("/api/users/me", "/api/sessions"):
            assert stage.get(path, tokens.access_token).status_code == 200

    def test_tokens_are_refreshed(self, stage: Stage, tokens: TokenPair) -> None:
        assert stage.post("/api/auth/refresh", {"refresh_token": tokens.refresh_token}).status_code == 200

    def test_sessions_are_revoked(self, stage: Stage, tokens: TokenPair) -> None:
        assert stage.post("/api/auth/logout", {}, tokens.access_token).status_code == 204
        assert stage.get("/api/users/me", tokens.access_token).status_code == 401
