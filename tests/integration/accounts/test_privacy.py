"""Neither logs nor Redis nor stored items reveal secrets."""

import logging

import pytest

from accounts.models import UserModel
from foundation.stores.dynamodb import Database
from tests.integration.accounts.conftest import ADA, App


class TestLogs:
    def test_neither_numbers_nor_codes_nor_tokens_appear_at_info(
        self, app: App, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        right = app.code()
        body = {"phone_number": ADA, "device_id": "laptop"}
        wrong = f"{(int(right) + 1) % 1_000_000:06d}"
        app.post("/api/auth/verify", {**body, "code": wrong})
        login = app.post("/api/auth/verify", {**body, "code": right}).json()
        app.post("/api/auth/request-code", {"phone_number": ADA})
        app.post("/api/auth/request-code", {"phone_number": ADA})
        app.post("/api/users/lookup", {"phone_number": ADA}, login["access_token"])
        app.post("/api/auth/refresh", {"refresh_token": login["refresh_token"]})
        app.clock.advance(minutes=5)
        app.post("/api/auth/refresh", {"refresh_token": login["refresh_token"]})
        app.sms.failing = True
        app.post("/api/auth/request-code", {"phone_number": "+447911123456"})
        assert "login of user_" in caplog.text
        assert "session revoked" in caplog.text
        secret = [ADA, ADA[1:], "7911123456", right, wrong, login["access_token"], login["refresh_token"].split(".")[1]]
        assert [text for text in secret if text in caplog.text] == []


class TestRedis:
    def test_it_holds_neither_numbers_nor_codes(self, app: App) -> None:
        code = app.code()
        keys = list(app.redis.scan_iter())
        assert {key.split(b":")[0] for key in keys} == {b"login", b"limit"}
        dump = repr([(key, app.redis.hgetall(key)) for key in keys])
        assert ADA[1:] not in dump
        digests = [app.redis.hget(key, "digest") for key in keys if key.startswith(b"login:")]
        assert [len(digest or b"") for digest in digests] == [64, 64]
        assert code.encode() not in b"".join(key for key in keys if key.startswith(b"login:"))

    def test_a_code_is_gone_after_five_minutes(self, app: App) -> None:
        app.code()
        for key in app.redis.scan_iter("login:*"):
            left = app.redis.pttl(key)
            assert isinstance(left, int)
            assert 295_000 < left <= 300_000


class TestClaims:
    def test_a_claim_is_not_in_the_index_of_numbers(self, app: App, database: Database) -> None:
        user_id = app.log_in()["user"]["user_id"]
        found = database.call(
            "Query",
            {
                "TableName": database.table_name(UserModel),
                "IndexName": "phone_number-index",
                "KeyConditionExpression": "phone_number = :number",
                "ExpressionAttributeValues": {":number": {"S": ADA}},
            },
        )
        assert [item["user_id"]["S"] for item in found["Items"]] == [user_id]
