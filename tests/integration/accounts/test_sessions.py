"""Sessions over REST: refreshing, listing, revoking."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from unittest.mock import Mock

import pytest

from accounts.errors import SessionRevoked
from accounts.models import SessionModel
from accounts.services.sessions import SESSION_LIFETIME, TokenPair
from accounts.services.verification import CACHE_TTL, TokenVerifier
from accounts.stores.sessions import SessionStore
from foundation.rest.throttling import REFRESHES_PER_SESSION
from foundation.stores.dynamodb import Database
from tests.integration.accounts.conftest import ADA, BOB, PUBLIC_BURST, App, verify, verify_now


def refresh(app: App, token: str) -> Any:
    return app.post("/api/auth/refresh", {"refresh_token": token})


class TestRefresh:
    def test_it_gives_the_next_tokens_of_the_same_session(self, app: App) -> None:
        login = app.log_in()
        answer = refresh(app, login["refresh_token"])
        assert answer.status_code == 200
        assert answer["Cache-Control"] == "no-store"
        tokens = answer.json()
        assert set(tokens) == {"session_id", "access_token", "refresh_token", "expires_in"}
        assert tokens["session_id"] == login["session_id"]
        assert tokens["refresh_token"] != login["refresh_token"]
        assert app.get("/api/users/me", tokens["access_token"]).status_code == 200

    def test_tokens_follow_one_another_for_as_long_as_they_are_used(self, app: App) -> None:
        token = app.log_in()["refresh_token"]
        for _ in range(4):
            app.clock.advance(days=29)
            answer = refresh(app, token)
            assert answer.status_code == 200
            token = answer.json()["refresh_token"]

    def test_a_session_that_is_not_refreshed_ends(self, app: App) -> None:
        login = app.log_in()
        app.clock.advance(seconds=SESSION_LIFETIME.total_seconds())
        answer = refresh(app, login["refresh_token"])
        assert (answer.status_code, answer.json()["code"]) == (401, "session_revoked")

    def test_only_a_hash_of_the_token_is_stored(self, app: App, database: Database) -> None:
        login = app.log_in()
        following = refresh(app, login["refresh_token"]).json()
        stored = str(_session_item(database, login["session_id"]))
        for token in (login["refresh_token"], following["refresh_token"]):
            assert token.split(".")[1] not in stored

    def test_the_session_item_carries_its_expiry_for_dynamodb(self, app: App, database: Database) -> None:
        item = _session_item(database, app.log_in()["session_id"])
        assert item["expires_at"]["S"] == "2035-03-01T14:30:00.000Z"
        assert item["ttl"]["N"] == str(int((app.clock.now() + SESSION_LIFETIME).timestamp()))


class TestRefreshLimits:
    def test_a_token_that_is_repeated_within_its_grace_is_refused_before_its_session_is_read(
        self, app: App, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        token, other = app.log_in()["refresh_token"], app.log_in(BOB)["refresh_token"]
        answers = [refresh(app, token).status_code for _ in range(REFRESHES_PER_SESSION.burst)]
        assert set(answers) == {200}
        with monkeypatch.context() as patch:
            patch.setattr(app.accounts.sessions, "refresh", Mock(side_effect=AssertionError("the session is read")))
            refused = refresh(app, token)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
        assert int(refused["Retry-After"]) >= 1
        assert refresh(app, other).status_code == 200

    def test_forged_tokens_take_nothing_from_the_session(self, app: App) -> None:
        login = app.log_in()
        forged = f"{login['session_id']}.{'A' * 43}.{'A' * 22}"
        assert {refresh(app, forged).status_code for _ in range(REFRESHES_PER_SESSION.burst + 1)} == {401}
        assert refresh(app, login["refresh_token"]).status_code == 200

    def test_requests_without_a_user_count_for_their_address(self, app: App) -> None:
        body = {"refresh_token": "none"}

        def ask(path: str, address: str, **headers: str) -> int:
            return int(app.post(path, body, REMOTE_ADDR=address, **headers).status_code)

        for _ in range(PUBLIC_BURST):
            assert ask("/api/auth/refresh", "192.0.2.1") == 401
        for path in ("refresh", "request-code", "verify"):
            assert ask(f"/api/auth/{path}", "192.0.2.1") == 429
            assert ask(f"/api/auth/{path}", "10.0.0.1", HTTP_X_FORWARDED_FOR="192.0.2.1") == 429
            assert ask(f"/api/auth/{path}", "10.0.0.1", HTTP_X_FORWARDED_FOR="192.0.2.2") != 429


class TestRefreshGrace:
    def test_a_repeated_request_within_a_minute_gets_the_same_successor(self, app: App) -> None:
        old = app.log_in()["refresh_token"]
        first = refresh(app, old).json()
        app.clock.advance(seconds=60)
        again = refresh(app, old)
        assert again.status_code == 200
        assert again.json()["refresh_token"] == first["refresh_token"]
        assert refresh(app, first["refresh_token"]).status_code == 200

    def test_requests_that_race_all_get_the_same_successor(self, app: App) -> None:
        old = app.log_in()["refresh_token"]
        barrier = Barrier(20)

        def race(_: int) -> TokenPair:
            barrier.wait()
            return app.accounts.sessions.refresh(old)

        with ThreadPoolExecutor(20) as pool:
            pairs = list(pool.map(race, range(20)))
        assert len({pair.refresh_token for pair in pairs}) == 1
        app.clock.advance(minutes=15)
        assert refresh(app, pairs[7].refresh_token).status_code == 200
        assert app.notices.session_ids == []

    def test_after_the_grace_the_previous_token_ends_the_session(self, app: App) -> None:
        login = app.log_in()
        following = refresh(app, login["refresh_token"]).json()
        app.clock.advance(seconds=61)
        answer = refresh(app, login["refresh_token"])
        assert (answer.status_code, answer.json()["code"]) == (401, "session_revoked")
        assert refresh(app, following["refresh_token"]).json()["code"] == "session_revoked"
        assert app.get("/api/users/me", following["access_token"]).json()["code"] == "session_revoked"
        assert app.notices.session_ids == [login["session_id"]]

    def test_a_token_two_rotations_old_ends_the_session_even_within_the_grace(self, app: App) -> None:
        oldest = app.log_in()["refresh_token"]
        old = refresh(app, oldest).json()["refresh_token"]
        refresh(app, old)
        assert refresh(app, oldest).json()["code"] == "session_revoked"
        assert refresh(app, old).json()["code"] == "session_revoked"

    def test_a_made_up_token_does_not_end_the_session(self, app: App) -> None:
        login = app.log_in()
        made_up = f"{login['session_id']}.{'A' * 43}.{'A' * 22}"
        answer = refresh(app, made_up)
        assert (answer.status_code, answer.json()["code"]) == (401, "invalid_refresh_token")
        assert refresh(app, login["refresh_token"]).status_code == 200


class TestList:
    def test_it_shows_each_device_and_which_one_is_current(self, app: App) -> None:
        laptop, phone = app.log_in(device_id="laptop"), app.log_in(device_id="phone")
        app.log_in(BOB)
        answer = app.get("/api/sessions", phone["access_token"])
        assert answer.status_code == 200
        assert answer.json()["next_cursor"] is None
        assert sorted(answer.json()["items"], key=lambda item: item["device_id"]) == [
            {
                "session_id": login["session_id"],
                "device_id": device,
                "created_at": "2035-01-30T14:30:00.000Z",
                "expires_at": "2035-03-01T14:30:00.000Z",
                "current": device == "phone",
            }
            for device, login in (("laptop", laptop), ("phone", phone))
        ]

    def test_it_pages(self, app: App) -> None:
        logins = [app.log_in(device_id=f"device {number}") for number in range(5)]
        seen: list[str] = []
        pages, cursor = 0, ""
        while pages == 0 or cursor:
            query = f"limit=2&cursor={cursor}" if cursor else "limit=2"
            page = app.get(f"/api/sessions?{query}", logins[0]["access_token"]).json()
            seen += [item["session_id"] for item in page["items"]]
            cursor, pages = page["next_cursor"] or "", pages + 1
        assert sorted(seen) == sorted(login["session_id"] for login in logins)
        assert pages >= 3

    def test_another_users_cursor_is_refused(self, app: App) -> None:
        ada, _, bob = app.log_in(ADA), app.log_in(ADA), app.log_in(BOB)
        cursor = app.get("/api/sessions?limit=1", ada["access_token"]).json()["next_cursor"]
        answer = app.get(f"/api/sessions?limit=1&cursor={cursor}", bob["access_token"])
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")

    @pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "wrong=1"])
    def test_a_bad_query_is_refused(self, app: App, query: str) -> None:
        assert app.get(f"/api/sessions?{query}", app.log_in()["access_token"]).status_code == 422

    def test_expired_sessions_are_not_shown(self, app: App) -> None:
        app.log_in(device_id="old")
        app.clock.advance(seconds=SESSION_LIFETIME.total_seconds())
        new = app.log_in(device_id="new")
        items = app.get("/api/sessions", new["access_token"]).json()["items"]
        assert [item["device_id"] for item in items] == ["new"]


class TestRevoke:
    def test_of_two_devices_the_revoked_one_ends_and_the_other_stays_active(self, app: App) -> None:
        laptop, phone = app.log_in(device_id="laptop"), app.log_in(device_id="phone")
        assert app.get("/api/users/me", phone["access_token"]).status_code == 200
        assert app.delete(f"/api/sessions/{phone['session_id']}", laptop["access_token"]).status_code == 204
        refused = app.get("/api/users/me", phone["access_token"])
        assert (refused.status_code, refused.json()["code"]) == (401, "session_revoked")
        assert refresh(app, phone["refresh_token"]).json()["code"] == "session_revoked"
        assert app.get("/api/users/me", laptop["access_token"]).status_code == 200
        assert refresh(app, laptop["refresh_token"]).status_code == 200
        assert app.notices.session_ids == [phone["session_id"]]

    def test_another_process_refuses_the_token_within_seconds(self, app: App, database: Database) -> None:
        phone = app.log_in(device_id="phone")
        elsewhere = _another_process(app, database)
        assert verify(elsewhere, phone).session_id == phone["session_id"]
        app.post("/api/auth/logout", {}, phone["access_token"])
        app.clock.advance(seconds=CACHE_TTL.total_seconds())
        with pytest.raises(SessionRevoked):
            verify(elsewhere, phone)

    def test_a_socket_is_refused_at_once_in_any_process(self, app: App, database: Database) -> None:
        phone = app.log_in(device_id="phone")
        elsewhere = _another_process(app, database)
        verify(elsewhere, phone)
        app.post("/api/auth/logout", {}, phone["access_token"])
        with pytest.raises(SessionRevoked):
            verify_now(elsewhere, phone)

    def test_a_notice_makes_another_process_refuse_at_once(self, app: App, database: Database) -> None:
        phone = app.log_in(device_id="phone")
        elsewhere = _another_process(app, database)
        verify(elsewhere, phone)
        app.post("/api/auth/logout", {}, phone["access_token"])
        elsewhere.mark_ended(app.notices.session_ids)
        with pytest.raises(SessionRevoked):
            verify(elsewhere, phone)

    def test_another_users_session_is_not_found_and_stays_active(self, app: App) -> None:
        ada, bob = app.log_in(ADA), app.log_in(BOB)
        answer = app.delete(f"/api/sessions/{ada['session_id']}", bob["access_token"])
        assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")
        assert app.get("/api/users/me", ada["access_token"]).status_code == 200
        assert app.notices.session_ids == []

    @pytest.mark.parametrize("session_id", ["x", "sess_", "sess_01KG7Y4QZ9B2C3D4E5F6G7H8J9", "user_%00", "ä" * 300])
    def test_what_is_no_session_is_not_found(self, app: App, session_id: str) -> None:
        answer = app.delete(f"/api/sessions/{session_id}", app.log_in()["access_token"])
        assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")

    def test_all_others_end_and_the_callers_stays_active(self, app: App) -> None:
        logins = [app.log_in(device_id=f"device {number}") for number in range(4)]
        bob = app.log_in(BOB)
        assert app.delete("/api/sessions", logins[0]["access_token"]).status_code == 204
        assert app.get("/api/users/me", logins[0]["access_token"]).status_code == 200
        assert app.get("/api/users/me", bob["access_token"]).status_code == 200
        for login in logins[1:]:
            assert app.get("/api/users/me", login["access_token"]).json()["code"] == "session_revoked"
        assert sorted(app.notices.session_ids) == sorted(login["session_id"] for login in logins[1:])

    def test_logging_out_ends_the_session(self, app: App) -> None:
        login = app.log_in()
        answer = app.post("/api/auth/logout", {}, login["access_token"])
        assert (answer.status_code, answer.content) == (204, b"")
        assert app.get("/api/users/me", login["access_token"]).json()["code"] == "session_revoked"

    def test_a_revocation_stands_when_its_notice_cannot_be_published(self, app: App) -> None:
        login = app.log_in()
        app.notices.failing = True
        assert app.post("/api/auth/logout", {}, login["access_token"]).status_code == 204
        assert app.get("/api/users/me", login["access_token"]).json()["code"] == "session_revoked"


class TestCreating:
    def test_a_lost_answer_fails_no_login(self, app: App, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        wire = database.on_loop.wire
        send = wire._exchange

        async def lose_answer(operation: str, body: bytes) -> dict[str, Any]:
            answer = await send(operation, body)
            if operation == "PutItem":
                monkeypatch.undo()
                raise TimeoutError
            return answer

        app.log_in()
        monkeypatch.setattr(wire, "_exchange", lose_answer)
        login = app.log_in()
        assert wire._exchange == send
        assert app.get("/api/users/me", login["access_token"]).status_code == 200


def _session_item(database: Database, session_id: str) -> dict[str, Any]:
    key = {"session_id": {"S": session_id}}
    answer = database.call(
        "GetItem", {"TableName": database.table_name(SessionModel), "Key": key, "ConsistentRead": True}
    )
    return dict(answer["Item"])


def _another_process(app: App, database: Database) -> TokenVerifier:
    tokens = app.accounts.verifier._tokens
    return TokenVerifier(tokens=tokens, sessions=SessionStore(database), clock=app.clock)
