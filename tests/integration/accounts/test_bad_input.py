"""Bad input, each with its 4xx and a stable code, none a 500."""

import json
from collections.abc import Iterator
from typing import Any, cast

import jwt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accounts.services.guard import LoginPolicy
from accounts.stores import TABLES
from foundation.stores.dynamodb import Database, DynamoDBOptions, schema
from foundation.stores.redis.client import RedisOptions, connect
from tests.integration.accounts.conftest import ADA, App, running_app

BAD_NUMBERS = [
    "",
    "x",
    "14155550123",
    "+",
    "+1",
    "+1415555",
    "+141555501234567890",
    "+0123456789",
    "+99912345678",
    "+1 415 555 0123",
    "+1-415-555-0123",
    " +14155550123",
    "+14155550123 ",
    "+14155550123\n",
    "+１４１５５５５０１２３",
    "+١٤١٥٥٥٥٠١٢٣",
    "+1415555012a",
    "tel:+14155550123",
    "+14155550123;ext=1",
    "+1415555\x000123",
    14155550123,
    None,
    ["+14155550123"],
    {"e164": "+14155550123"},
    True,
]
SIGNING_KEY = "n" * 64
PATHS = ["/api/auth/request-code", "/api/auth/verify", "/api/auth/refresh"]


@pytest.fixture(scope="module")
def module_app(dynamodb_url: str, redis_url: str) -> Iterator[App]:
    """One app for all: bad input leaves nothing behind."""
    database = Database(DynamoDBOptions(region="us-east-1", endpoint_url=dynamodb_url, table_prefix="bad_input_"))
    schema.create_missing(database, TABLES, report=lambda line: None)
    client = connect(RedisOptions(url=redis_url))
    with running_app(database, client, policy=LoginPolicy(), loopback_is_free=True) as app:
        yield app
    client.close()


@pytest.fixture
def app(module_app: App) -> App:
    module_app.redis.flushall()
    module_app.sms.messages.clear()
    return module_app


def problem(answer: Any) -> tuple[int, str]:
    assert answer["Content-Type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == answer.status_code
    assert {"type", "title", "status", "code", "detail"} <= set(body)
    return answer.status_code, body["code"]


class TestPhoneNumbers:
    @pytest.mark.parametrize("number", BAD_NUMBERS, ids=repr)
    def test_what_is_no_number_is_refused_by_field(self, app: App, number: object) -> None:
        for path, more in (
            ("/api/auth/request-code", {}),
            ("/api/auth/verify", {"code": "123456", "device_id": "laptop"}),
        ):
            answer = app.post(path, {"phone_number": number, **more})
            assert problem(answer) == (422, "invalid_request")
            assert list(answer.json()["errors"]) == ["phone_number"]
        assert app.sms.messages == []

    def test_a_refusal_does_not_repeat_the_number(self, app: App) -> None:
        assert b"1415555" not in app.post("/api/auth/request-code", {"phone_number": "+1415555"}).content


class TestCodes:
    @pytest.mark.parametrize(
        "code",
        ["", "12345", "1234567", "123 456", " 123456", "123456\n", "１２３４５６", "١٢٣٤٥٦", "12345a", 123456, None],
    )
    def test_what_is_not_six_digits_is_refused_by_field(self, app: App, code: object) -> None:
        answer = app.post("/api/auth/verify", {"phone_number": ADA, "code": code, "device_id": "laptop"})
        assert problem(answer) == (422, "invalid_request")
        assert list(answer.json()["errors"]) == ["code"]

    @pytest.mark.parametrize("device_id", ["", "a" * 129, "a\x00", "a\n", "ä", 1, None, {}])
    def test_a_bad_device_id_is_refused_by_field(self, app: App, device_id: object) -> None:
        answer = app.post("/api/auth/verify", {"phone_number": ADA, "code": "123456", "device_id": device_id})
        assert problem(answer) == (422, "invalid_request")
        assert list(answer.json()["errors"]) == ["device_id"]


class TestBodies:
    @pytest.mark.parametrize("path", PATHS)
    def test_missing_fields_are_named(self, app: App, path: str) -> None:
        for answer in (app.post(path, {}), _raw(app, path, b"")):
            assert problem(answer) == (422, "invalid_request")
            assert all(messages == ["This field is required."] for messages in answer.json()["errors"].values())

    @pytest.mark.parametrize("path", PATHS)
    def test_extra_fields_are_refused(self, app: App, path: str) -> None:
        answer = app.post(path, {"phone_number": ADA, "is_admin": True})
        assert problem(answer) == (422, "invalid_request")
        assert answer.json()["errors"]["is_admin"] == ["Unknown field."]

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize("body", [b"[]", b"null", b'"text"', b"7", b'[{"phone_number": "+14155550123"}]'])
    def test_a_body_that_is_no_object_is_refused(self, app: App, path: str, body: bytes) -> None:
        assert problem(_raw(app, path, body)) == (422, "invalid_request")

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize(
        "body", [b"{", b"{'a': 1}", b"\xff\xfe", b'{"phone_number": "\\ud800"}', b"[" * 100_000, b"NaN"]
    )
    def test_a_body_that_is_no_json_is_malformed(self, app: App, path: str, body: bytes) -> None:
        assert problem(_raw(app, path, body)) == (400, "invalid_request")

    @pytest.mark.parametrize("path", PATHS)
    def test_a_megabyte_is_too_large(self, app: App, path: str) -> None:
        body = json.dumps({"phone_number": "+" + "1" * 1_000_000}).encode()
        assert problem(_raw(app, path, body)) == (413, "request_too_large")

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", "nonsense"])
    def test_another_type_of_body_is_unsupported(self, app: App, path: str, kind: str) -> None:
        assert problem(_raw(app, path, b"{}", kind)) == (415, "unsupported_media_type")

    @pytest.mark.parametrize("path", PATHS)
    def test_another_method_is_not_allowed(self, app: App, path: str) -> None:
        assert problem(app.get(path)) == (405, "method_not_allowed")


class TestRefreshTokens:
    @pytest.mark.parametrize("token", ["x", "a.b.c", "sess_01KG7Y4QZ9B2C3D4E5F6G7H8J9." + "A" * 43, "é" * 50])
    def test_what_is_no_token_is_invalid(self, app: App, token: str) -> None:
        answer = app.post("/api/auth/refresh", {"refresh_token": token})
        assert problem(answer) == (401, "invalid_refresh_token")

    @pytest.mark.parametrize("token", ["", "a" * 201, 7, None])
    def test_what_cannot_be_one_is_refused_by_field(self, app: App, token: object) -> None:
        assert problem(app.post("/api/auth/refresh", {"refresh_token": token})) == (422, "invalid_request")

    def test_an_access_token_is_none(self, app: App) -> None:
        login = app.log_in()
        answer = app.post("/api/auth/refresh", {"refresh_token": login["access_token"][:200]})
        assert problem(answer) == (401, "invalid_refresh_token")


class TestAccessTokens:
    def test_none_at_all(self, app: App) -> None:
        for answer in (
            app.get("/api/users/me"),
            app.get("/api/sessions"),
            app.delete("/api/sessions"),
            app.post("/api/auth/logout", {}),
            app.post("/api/users/lookup", {"phone_number": ADA}),
        ):
            assert problem(answer) == (401, "authentication_required")
            assert answer["WWW-Authenticate"].startswith("Bearer")

    @pytest.mark.parametrize(
        "header", ["Bearer", "Bearer ", "Basic YTpi", "bearer x", "Bearer a.b.c", "Token x", "Bearer é", "Bearer a b"]
    )
    def test_what_is_no_bearer_token(self, app: App, header: str) -> None:
        answer = app.client.get("/api/users/me", headers={"Authorization": header})
        assert problem(answer) == (401, "authentication_required")

    def test_an_expired_one(self, app: App) -> None:
        token = app.log_in()["access_token"]
        app.clock.advance(minutes=15)
        assert problem(app.get("/api/users/me", token)) == (401, "token_expired")

    def test_one_of_a_revoked_session(self, app: App) -> None:
        token = app.log_in()["access_token"]
        app.post("/api/auth/logout", {}, token)
        assert problem(app.get("/api/users/me", token)) == (401, "session_revoked")

    def test_one_signed_by_another_key(self, app: App) -> None:
        assert problem(app.get("/api/users/me", _resigned(app, "x" * 48, "HS256"))) == (
            401,
            "authentication_required",
        )

    @pytest.mark.parametrize("algorithm", ["none", "HS384", "HS512"])
    def test_one_of_another_algorithm(self, app: App, algorithm: str) -> None:
        key = "" if algorithm == "none" else SIGNING_KEY
        token = _resigned(app, key, algorithm)
        assert problem(app.get("/api/users/me", token)) == (401, "authentication_required")

    def test_one_with_a_changed_claim(self, app: App) -> None:
        head, _, signature = app.log_in()["access_token"].split(".")
        other = app.log_in("+447911123456")["access_token"].split(".")[1]
        assert problem(app.get("/api/users/me", f"{head}.{other}.{signature}")) == (401, "authentication_required")

    @settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(token=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=200))
    def test_any_text(self, app: App, token: str) -> None:
        assert problem(app.get("/api/users/me", token)) == (401, "authentication_required")


def _raw(app: App, path: str, body: bytes, kind: str = "application/json") -> Any:
    return app.client.generic("POST", path, cast(Any, body), content_type=kind)


def _resigned(app: App, key: str, algorithm: str) -> str:
    token = app.log_in()["access_token"]
    claims = jwt.decode(token, options={"verify_signature": False})
    return jwt.encode(claims, key, algorithm, headers={"kid": "new"})
