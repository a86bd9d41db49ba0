"""Each endpoint sends exactly its documented operations to DynamoDB, and no Scan."""

from collections.abc import Callable
from typing import Any

import pytest

from foundation.stores.dynamodb import Database
from tests.integration.accounts.conftest import ADA, BOB, App, verify, verify_now

STRONG_GET, EVENTUAL_GET = "GetItem strong", "GetItem eventual"
INDEX_QUERY = "Query index"


@pytest.fixture
def asked(database: Database, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every request to DynamoDB, in order."""
    requests: list[str] = []
    wire = database.on_loop.wire
    send = wire.call

    async def call(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        requests.append(_described(operation, request))
        return await send(operation, request)

    monkeypatch.setattr(wire, "call", call)
    return requests


def _described(operation: str, arguments: dict[str, Any]) -> str:
    if operation == "BatchGetItem":
        strong = all(request["ConsistentRead"] for request in arguments["RequestItems"].values())
    else:
        strong = bool(arguments.get("ConsistentRead"))
    if operation == "Query":
        return f"Query {'index' if 'IndexName' in arguments else 'table'}"
    if operation in ("GetItem", "BatchGetItem"):
        return f"{operation} {'strong' if strong else 'eventual'}"
    return operation


class TestOperations:
    def test_a_first_login(self, app: App, asked: list[str]) -> None:
        app.log_in()
        assert asked == [STRONG_GET, "TransactWriteItems", "PutItem"]

    def test_another_login(self, app: App, asked: list[str]) -> None:
        app.log_in()
        asked.clear()
        app.log_in()
        assert asked == [STRONG_GET, STRONG_GET, "PutItem"]

    @pytest.mark.parametrize(
        ("request_of", "expected"),
        [
            (lambda app, login: app.get("/api/users/me", login["access_token"]), [EVENTUAL_GET]),
            (lambda app, login: app.get("/api/sessions", login["access_token"]), [INDEX_QUERY]),
            (lambda app, login: app.delete("/api/sessions", login["access_token"]), [INDEX_QUERY]),
            (lambda app, login: app.post("/api/auth/logout", {}, login["access_token"]), ["DeleteItem"]),
            (
                lambda app, login: app.patch("/api/users/me", {"display_name": "A"}, login["access_token"]),
                ["UpdateItem"],
            ),
            (
                lambda app, login: app.post("/api/users/lookup", {"phone_number": ADA}, login["access_token"]),
                [INDEX_QUERY, EVENTUAL_GET],
            ),
            (
                lambda app, login: app.post("/api/users/lookup", {"phone_number": BOB}, login["access_token"]),
                [INDEX_QUERY],
            ),
        ],
    )
    def test_a_request_with_a_token(
        self, app: App, asked: list[str], request_of: Callable[[App, Any], Any], expected: list[str]
    ) -> None:
        login = app.log_in()
        verify(app.accounts.verifier, login)
        asked.clear()
        assert request_of(app, login).status_code < 500
        assert asked == expected

    def test_a_refresh_and_its_repetition(self, app: App, asked: list[str]) -> None:
        login = app.log_in()
        asked.clear()
        app.post("/api/auth/refresh", {"refresh_token": login["refresh_token"]})
        assert asked == [STRONG_GET, STRONG_GET, "UpdateItem"]
        asked.clear()
        app.post("/api/auth/refresh", {"refresh_token": login["refresh_token"]})
        assert asked == [STRONG_GET, STRONG_GET]

    def test_a_made_up_refresh_token_asks_nothing(self, app: App, asked: list[str]) -> None:
        app.post("/api/auth/refresh", {"refresh_token": f"sess_01KG7Y4QZ9B2C3D4E5F6G7H8J9.{'A' * 43}.{'A' * 22}"})
        assert asked == []

    def test_a_token_is_checked_once_in_a_few_seconds(self, app: App, asked: list[str]) -> None:
        login = app.log_in()
        asked.clear()
        for _ in range(3):
            verify(app.accounts.verifier, login)
        assert asked == ["BatchGetItem eventual"]
        asked.clear()
        verify_now(app.accounts.verifier, login)
        assert asked == ["BatchGetItem strong"]


class TestLaggingReplicas:
    """Eventually consistent reads miss the writes of the last seconds."""

    @pytest.fixture(autouse=True)
    def lag(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        wire = database.on_loop.wire
        send = wire.call

        async def call(operation: str, request: dict[str, Any]) -> dict[str, Any]:
            if _described(operation, request) == EVENTUAL_GET:
                return {}
            if _described(operation, request) == "BatchGetItem eventual":
                return {"Responses": {}}
            return await send(operation, request)

        monkeypatch.setattr(wire, "call", call)

    def test_a_new_session_is_accepted(self, app: App) -> None:
        login = app.log_in()
        assert app.get("/api/users/me", login["access_token"]).json() == login["user"]

    def test_a_new_user_is_found(self, app: App) -> None:
        ada = app.log_in()["user"]["user_id"]
        assert list(app.accounts.directory.find_public_users([ada])) == [ada]

    def test_the_second_login_finds_the_first_ones_user(self, app: App) -> None:
        assert app.log_in()["user"] == app.log_in()["user"]
