"""Users over REST: own profile, public profiles, lookup."""

from typing import Any

import pytest

from foundation.kernel.ids import UserId
from tests.integration.accounts.conftest import ADA, BOB, App


class TestOwnProfile:
    def test_it_contains_all_fields(self, app: App) -> None:
        login = app.log_in(display_name="Ada")
        answer = app.get("/api/users/me", login["access_token"])
        assert answer.status_code == 200
        assert answer.json() == login["user"]

    def test_renaming_moves_the_time_of_the_last_change(self, app: App) -> None:
        login = app.log_in(display_name="Ada")
        app.clock.advance(seconds=5)
        answer = app.patch("/api/users/me", {"display_name": "  Ada Lovelace "}, login["access_token"])
        assert answer.status_code == 200
        expected = {**login["user"], "display_name": "Ada Lovelace", "updated_at": "2035-01-30T14:30:05.000Z"}
        assert answer.json() == expected
        assert app.get("/api/users/me", login["access_token"]).json() == expected

    @pytest.mark.parametrize("name", ["", "   ", "a" * 101, "a\nb", "a\x00b", "\u202eevil", "\u200b", 7, None, ["a"]])
    def test_a_bad_name_is_refused_by_field(self, app: App, name: object) -> None:
        answer = app.patch("/api/users/me", {"display_name": name}, app.log_in()["access_token"])
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
        assert list(answer.json()["errors"]) == ["display_name"]

    def test_nothing_else_can_be_changed(self, app: App) -> None:
        login = app.log_in()
        answer = app.patch("/api/users/me", {"display_name": "A", "phone_number": BOB}, login["access_token"])
        assert answer.status_code == 422
        assert answer.json()["errors"] == {"phone_number": ["Unknown field."]}


class TestPublicProfiles:
    def test_they_contain_the_name_and_never_the_number(self, app: App) -> None:
        ada, bob = app.log_in(ADA, display_name="Ada"), app.log_in(BOB)
        answer = app.get(f"/api/users/{ada['user']['user_id']}", bob["access_token"])
        assert answer.status_code == 200
        assert answer.json() == {"user_id": ada["user"]["user_id"], "display_name": "Ada"}

    @pytest.mark.parametrize(
        "user_id", ["x", "user_01KG7Y4QZ8M3T5V6W7X8Y9Z0A1", f"phone%23{ADA}", f"phone#{ADA}", "user_" + "Z" * 26, "é"]
    )
    def test_what_is_no_user_is_not_found(self, app: App, user_id: str) -> None:
        answer = app.get(f"/api/users/{user_id}", app.log_in()["access_token"])
        assert (answer.status_code, answer.json()["code"]) == (404, "user_not_found")

    def test_the_directory_knows_users_and_no_claims(self, app: App) -> None:
        ada = UserId(app.log_in(ADA, display_name="Ada")["user"]["user_id"])
        unknown = UserId("user_01KG7Y4QZ8M3T5V6W7X8Y9Z0A1")
        users = app.accounts.directory.find_public_users([ada, unknown, ada, UserId(f"phone#{ADA}"), UserId("")])
        assert {user_id: user.display_name for user_id, user in users.items()} == {ada: "Ada"}

    def test_reads_are_rate_limited(self, app: App) -> None:
        token = app.log_in()["access_token"]
        answers = [app.get("/api/users/me", token) for _ in range(40)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert len(refused) == 10
        assert refused[0].json()["code"] == "rate_limited"
        assert int(refused[0]["Retry-After"]) >= 1


class TestLookup:
    def test_it_finds_a_user_by_number_and_does_not_repeat_the_number(self, app: App) -> None:
        ada, bob = app.log_in(ADA, display_name="Ada"), app.log_in(BOB)
        answer = app.post("/api/users/lookup", {"phone_number": ADA}, bob["access_token"])
        assert answer.status_code == 200
        assert answer.json() == {"user_id": ada["user"]["user_id"], "display_name": "Ada"}

    def test_an_unknown_number_is_not_found(self, app: App) -> None:
        answer = app.post("/api/users/lookup", {"phone_number": BOB}, app.log_in()["access_token"])
        assert (answer.status_code, answer.json()["code"]) == (404, "user_not_found")

    def test_lookups_are_rate_limited(self, app: App) -> None:
        ada, bob = app.log_in(ADA), app.log_in(BOB)
        tried = [f"+1415556{number:04d}" for number in range(62)]
        statuses = [app.post("/api/users/lookup", {"phone_number": n}, ada["access_token"]).status_code for n in tried]
        assert statuses[:60] == [404] * 60
        assert statuses[-1] == 429
        assert app.post("/api/users/lookup", {"phone_number": ADA}, bob["access_token"]).status_code == 200


class TestPrivacy:
    def test_everything_is_shown_until_it_is_switched_off_and_other_processes_are_told(self, app: App) -> None:
        login = app.log_in()
        token, user_id = login["access_token"], login["user"]["user_id"]
        assert (login["user"]["read_receipts"], login["user"]["show_presence"]) == (True, True)
        answer = app.patch("/api/users/me", {"read_receipts": False}, token).json()
        assert (answer["read_receipts"], answer["show_presence"], answer["display_name"]) == (
            False,
            True,
            login["user"]["display_name"],
        )
        app.patch("/api/users/me", {"show_presence": False}, token)
        answer = app.patch("/api/users/me", {"display_name": "Ada", "read_receipts": True}, token).json()
        assert (answer["read_receipts"], answer["show_presence"]) == (True, False)
        assert app.notices.privacy == [user_id] * 3

    def test_it_is_changed_without_redis_too(self, app: App) -> None:
        token = app.log_in()["access_token"]
        app.notices.failing = True
        assert app.patch("/api/users/me", {"read_receipts": False}, token).json()["read_receipts"] is False

    @pytest.mark.parametrize("body", [{}, {"read_receipts": "no"}, {"show_presence": 1}, {"read_receipts": None}])
    def test_anything_but_a_switch_is_refused(self, app: App, body: dict[str, Any]) -> None:
        answer = app.patch("/api/users/me", body, app.log_in()["access_token"])
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
