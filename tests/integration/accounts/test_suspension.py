"""Suspended users are refused everywhere, and restored ones are back with the same tokens."""

import pytest

from accounts.errors import AccountSuspended, UserNotFound
from foundation.kernel.ids import UserId
from tests.integration.accounts.conftest import ADA, App, verify_now

NOBODY = UserId("user_01KG7Y4QZ8M3T5V6W7X8Y9Z0A1")


def assert_suspended(answer: object) -> None:
    assert (answer.status_code, answer.json()["code"]) == (403, "account_suspended")  # type: ignore[attr-defined]


class TestSuspension:
    def test_login_refresh_rest_and_handshake_are_refused(self, app: App) -> None:
        login = app.log_in()
        app.accounts.suspensions.suspend(login["user"]["user_id"])
        body = {"phone_number": ADA, "code": app.code(), "device_id": "laptop"}
        assert_suspended(app.post("/api/auth/verify", body))
        assert_suspended(app.post("/api/auth/refresh", {"refresh_token": login["refresh_token"]}))
        assert_suspended(app.get("/api/users/me", login["access_token"]))
        with pytest.raises(AccountSuspended):
            verify_now(app.accounts.verifier, login)

    def test_restored_everything_is_back(self, app: App) -> None:
        login = app.log_in()
        user_id = login["user"]["user_id"]
        app.accounts.suspensions.suspend(user_id)
        assert_suspended(app.get("/api/users/me", login["access_token"]))
        app.accounts.suspensions.restore(user_id)
        assert app.get("/api/users/me", login["access_token"]).status_code == 200
        assert app.post("/api/auth/refresh", {"refresh_token": login["refresh_token"]}).status_code == 200
        assert verify_now(app.accounts.verifier, login).user_id == user_id
        assert app.log_in()["user"]["user_id"] == user_id

    def test_every_process_is_told(self, app: App) -> None:
        user_id = app.log_in()["user"]["user_id"]
        app.accounts.suspensions.suspend(user_id)
        app.accounts.suspensions.restore(user_id)
        assert app.notices.suspensions == [(user_id, True), (user_id, False)]

    def test_without_redis_the_suspension_holds_all_the_same(self, app: App) -> None:
        login = app.log_in()
        app.notices.failing = True
        app.accounts.suspensions.suspend(login["user"]["user_id"])
        assert_suspended(app.get("/api/users/me", login["access_token"]))

    def test_a_second_suspension_keeps_the_first_ones_time(self, app: App) -> None:
        user_id = app.log_in()["user"]["user_id"]
        first = app.accounts.suspensions.suspend(user_id).suspended_at
        app.clock.advance(hours=1)
        assert app.accounts.suspensions.suspend(user_id).suspended_at == first == app.clock.now().replace(hour=14)

    @pytest.mark.parametrize("user_id", [NOBODY, UserId(f"phone#{ADA}")])
    def test_nobody_and_claims_cannot_be_suspended(self, app: App, user_id: UserId) -> None:
        app.log_in()
        with pytest.raises(UserNotFound):
            app.accounts.suspensions.suspend(user_id)
