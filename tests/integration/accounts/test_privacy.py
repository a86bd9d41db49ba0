"""Neither logs nor Redis nor stored items reveal secrets."""

import logging

import pytest

from accounts.models import UserModel
from foundation.stores.dynamodb import Database
from tests.integration.accounts.conftest import ADA, Stage


class TestLogs:
    def test_neither_numbers_nor_codes_nor_tokens_appear_at_info(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        right = stage.code()
        body = {"phone_number": ADA, "device_id": "laptop"}
        wrong = f"{(int(right) + 1) % 1_000_000:06d}"
        stage.post("/api/auth/verify", {**body, "code": wrong})
        login = stage.post("/api/auth/verify", {**body, "code": right}).json()
        stage.post("/api/auth/request-code", {"phone_number": ADA})
        stage.post("/api/auth/request-code", {"phone_number": ADA})
        stage.post("/api/users/lookup", {"phone_number": ADA}, login["access_token"])
        stage.post("/api/auth/refresh", {"refresh_token": login["refresh_token"]})
        stage.clock.advance(minutes=5)
        stage.post("/api/auth/refresh", {"refresh_token": login["refresh_token"]})
        stage.outbox.failing = True
        stage.post("/api/auth/request-code", {"phone_number": "+447911123456"})
        assert "login of user_" in caplog.text
        assert "session revoked" in caplog.text
        secret = [ADA, ADA[1:], "7911123456", right, wrong, login["access_token"], login["refresh_token"].split(".")[1]]
        assert [text for text in secret if text in caplog.text] == []


class TestRedis:
    def test_it_holds_neither_numbers_nor_codes(self, stage: Stage) -> None:
        code = stage.code()
        keys = list(stage.redis.scan_iter())
        assert {key.split(b":")[0] for key in keys} == {b"login", b"limit"}
        dump = repr([(key, stage.redis.hgetall(key)) for key in keys])
        assert ADA[1:] not in dump
        digests = [stage.redis.hget(key, "digest") for key in keys if key.startswith(b"login:")]
        assert [len(digest or b"") for digest in digests] == [64]
        assert code.encode() not in b"".join(key for key in keys if key.startswith(b"login:"))

    def test_a_code_is_gone_after_five_minutes(self, stage: Stage) -> None:
        stage.code()
        [key] = stage.redis.keys("login:*")
        left = stage.redis.pttl(key)
        assert isinstance(left, int)
        assert 295_000 < left <= 300_000


class TestClaims:
    def test_a_claim_is_not_in_the_index_of_numbers(self, stage: Stage, database: Database) -> None:
        user_id = stage.log_in()["user"]["user_id"]
        found = database.connection.dispatch(
            "Query",
            {
                "TableName": database.table_name(UserModel),
                "IndexName": "phone_number-index",
                "KeyConditionExpression": "phone_number = :number",
                "ExpressionAttributeValues": {":number": {"S": ADA}},
            },
        )
        assert [item["user_id"]["S"] for item in found["Items"]] == [user_id]
