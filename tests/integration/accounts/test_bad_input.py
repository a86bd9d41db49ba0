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
from tests.integration.accounts.conftest import ADA, Stage, on_stage

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
def module_stage(dynamodb_url: str, redis_url: str) -> Iterator[Stage]:
    """One stage for all: bad input leaves nothing behind."""
    database = Database(DynamoDBOptions(region="us-east-1", endpoint_url=dynamodb_url, table_prefix="bad_input_"))
    schema.create_missing(database, TABLES, report=lambda line: None)
    client = connect(RedisOptions(url=redis_url))
    with on_stage(database, client, policy=LoginPolicy(), loopback_is_free=True) as stage:
        yield stage
    client.close()


@pytest.fixture
def stage(module_stage: Stage) -> Stage:
    module_stage.redis.flushall()
    module_stage.outbox.messages.clear()
    return module_stage


def problem(answer: Any) -> tuple[int, str]:
    assert answer["Content-Type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == answer.status_code
    assert {"type", "title", "status", "code", "detail"} <= set(body)
    return answer.status_code, body["code"]


class TestPhoneNumbers:
    @pytest.mark.parametrize("number", BAD_NUMBERS, ids=repr)
    def test_what_is_no_number_is_refused_by_field(self, stage: Stage, number: object) -> None:
        for path, more in (
            ("/api/auth/request-code", {}),
            ("/api/auth/verify", {"code": "123456", "device_id": "laptop"}),
        ):
            answer = stage.post(path, {"phone_number": number, **more})
            assert problem(answer) == (422, "invalid_request")
            assert list(answer.json()["errors"]) == ["phone_number"]
        assert stage.outbox.messages == []

    def test_a_refusal_does_not_repeat_the_number(self, stage: Stage) -> None:
        assert b"1415555" not in stage.post("/api/auth/request-code", {"phone_number": "+1415555"}).content


class TestCodes:
    @pytest.mark.parametrize(
        "code",
        ["", "12345", "1234567", "123 456", " 123456", "123456\n", "１２３４５６", "١٢٣٤٥٦", "12345a", 123456, None],
    )
    def test_what_is_not_six_digits_is_refused_by_field(self, stage: Stage, code: object) -> None:
        answer = stage.post("/api/auth/verify", {"phone_number": ADA, "code": code, "device_id": "laptop"})
        assert problem(answer) == (422, "invalid_request")
        assert list(answer.json()["errors"]) == ["code"]

    @pytest.mark.parametrize("device_id", ["", "a" * 129, "a\x00", "a\n", "ä", 1, None, {}])
    def test_a_bad_device_id_is_refused_by_field(self, stage: Stage, device_id: object) -> None:
        answer = stage.post("/api/auth/verify", {"phone_number": ADA, "code": "123456", "device_id": device_id})
        assert problem(answer) == (422, "invalid_request")
        assert list(answer.json()["errors"]) == ["device_id"]


class TestBodies:
    @pytest.mark.parametrize("path", PATHS)
    def test_missing_fields_are_named(self, stage: Stage, path: str) -> None:
        for answer in (stage.post(path, {}), _raw(stage, path, b"")):
            assert problem(answer) == (422, "invalid_request")
            assert all(messages == ["This field is required."] for messages in answer.json()["errors"].values())

    @pytest.mark.parametrize("path", PATHS)
    def test_extra_fields_are_refused(self, stage: Stage, path: str) -> None:
        answer = stage.post(path, {"phone_number": ADA, "is_admin": True})
        assert problem(answer) == (422, "invalid_request")
        assert answer.json()["errors"]["is_admin"] == ["Unknown field."]

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize("body", [b"[]", b"null", b'"text"', b"7", b'[{"phone_number": "+14155550123"}]'])
    def test_a_body_that_is_no_object_is_refused(self, stage: Stage, path: str, body: bytes) -> None:
        assert problem(_raw(stage, path, body)) == (422, "invalid_request")

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize(
        "body", [b"{", b"{'a': 1}", b"\xff\xfe", b'{"phone_number": "\\ud800"}', b"[" * 100_000, b"NaN"]
    )
    def test_a_body_that_is_no_json_is_malformed(self, stage: Stage, path: str, body: bytes) -> None:
        assert problem(_raw(stage, path, body)) == (400, "invalid_request")

    @pytest.mark.parametrize("path", PATHS)
    def test_a_megabyte_is_too_large(self, stage: Stage, path: str) -> None:
        body = json.dumps({"phone_number": "+" + "1" * 1_000_000}).encode()
        assert problem(_raw(stage, path, body)) == (413, "request_too_large")

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", "nonsense"])
    def test_another_type_of_body_is_unsupported(self, stage: Stage, path: str, kind: str) -> None:
        assert problem(_raw(stage, path, b"{}", kind)) == (415, "unsupported_media_type")

    @pytest.mark.parametrize("path", PATHS)
    def test_another_method_is_not_allowed(self, stage: Stage, path: str) -> None:
        assert problem(stage.get(path)) == (405, "method_not_allowed")


class TestRefreshTokens:
    @pytest.mark.parametrize("token", ["x", "a.b.c", "sess_01KG7Y4QZ9B2C3D4E5F6G7H8J9." + "A" * 43, "é" * 50])
    def test_what_is_no_token_is_invalid(self, stage: Stage, token: str) -> None:
        answer = stage.post("/api/auth/refresh", {"refresh_token": token})
        assert problem(answer) == (401, "invalid_refresh_token")

    @pytest.mark.parametrize("token", ["", "a" * 201, 7, None])
    def test_what_cannot_be_one_is_refused_by_field(self, stage: Stage, token: object) -> None:
        assert problem(stage.post("/api/auth/refresh", {"refresh_token": token})) == (422, "invalid_request")

    def test_an_access_token_is_none(self, stage: Stage) -> None:
        login = stage.log_in()
        answer = stage.post("/api/auth/refresh", {"refresh_token": login["access_token"][:200]})
        assert problem(answer) == (401, "invalid_refresh_token")


class TestAccessTokens:
    def test_none_at_all(self, stage: Stage) -> None:
        for answer in (
            stage.get("/api/users/me"),
            stage.get("/api/sessions"),
            stage.delete("/api/sessions"),
            stage.post("/api/auth/logout", {}),
            stage.post("/api/users/lookup", {"phone_number": ADA}),
        ):
            assert problem(answer) == (401, "authentication_required")
            assert answer["WWW-Authenticate"].startswith("Bearer")

    @pytest.mark.parametrize(
        "header", ["Bearer", "Bearer ", "Basic YTpi", "bearer x", "Bearer a.b.c", "Token x", "Bearer é", "Bearer a b"]
    )
    def test_what_is_no_bearer_token(self, stage: Stage, header: str) -> None:
        answer = stage.client.get("/api/users/me", headers={"Authorization": header})
        assert problem(answer) == (401, "authentication_required")

    def test_an_expired_one(self, stage: Stage) -> None:
        token = stage.log_in()["access_token"]
        stage.clock.advance(minutes=15)
        assert problem(stage.get("/api/users/me", token)) == (401, "token_expired")

    def test_one_of_a_revoked_session(self, stage: Stage) -> None:
        token = stage.log_in()["access_token"]
        stage.post("/api/auth/logout", {}, token)
        assert problem(stage.get("/api/users/me", token)) == (401, "session_revoked")

    def test_one_signed_by_another_key(self, stage: Stage) -> None:
        assert problem(stage.get("/api/users/me", _resigned(stage, "x" * 48, "HS256"))) == (
            401,
            "authentication_required",
        )

    @pytest.mark.parametrize("algorithm", ["none", "HS384", "HS512"])
    def test_one_of_another_algorithm(self, stage: Stage, algorithm: str) -> None:
        key = "" if algorithm == "none" else SIGNING_KEY
        token = _resigned(stage, key, algorithm)
        assert problem(stage.get("/api/users/me", token)) == (401, "authentication_required")

    def test_one_with_a_changed_claim(self, stage: Stage) -> None:
        head, _, signature = stage.log_in()["access_token"].split(".")
        other = stage.log_in("+447911123456")["access_token"].split(".")[1]
        assert problem(stage.get("/api/users/me", f"{head}.{other}.{signature}")) == (401, "authentication_required")

    @settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(token=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=200))
    def test_any_text(self, stage: Stage, token: str) -> None:
        assert problem(stage.get("/api/users/me", token)) == (401, "authentication_required")


def _raw(stage: Stage, path: str, body: bytes, kind: str = "application/json") -> Any:
    return stage.client.generic("POST", path, cast(Any, body), content_type=kind)


def _resigned(stage: Stage, key: str, algorithm: str) -> str:
    token = stage.log_in()["access_token"]
    claims = jwt.decode(token, options={"verify_signature": False})
    return jwt.encode(claims, key, algorithm, headers={"kid": "new"})
