"""Reading, renaming and muting a chat."""

from typing import Any

import pytest

from foundation.kernel.ids import ChatId
from foundation.stores.dynamodb import Database
from tests.doubles import SettableClock
from tests.integration.chats.services import Person, Services, just_before


@pytest.fixture
def ada(services: Services) -> Person:
    return services.user("Ada")


@pytest.fixture
def bob(services: Services) -> Person:
    return services.user("Bob")


@pytest.fixture
def chat_id(ada: Person, bob: Person) -> ChatId:
    return ChatId(ada.create_group(bob).body["chat_id"])


class TestReading:
    def test_the_last_sequence_is_the_counter_now(self, services: Services, ada: Person, chat_id: ChatId) -> None:
        for content in ("one", "two"):
            services.say(chat_id, ada.user_id, content)
        assert ada.get(f"/api/chats/{chat_id}").body["last_sequence"] == 2

    @pytest.mark.parametrize("wrong", ["x", "chat_1", "direct#a#b", "user_01HQX4Z9V7JY3W8K2M5N6P0R1S", "%00", "ü" * 40])
    def test_what_is_no_chat_id_is_no_chat(self, ada: Person, wrong: str) -> None:
        assert ada.get(f"/api/chats/{wrong}").code in {"chat_not_found", "not_found"}

    def test_a_claim_is_no_chat(self, services: Services, ada: Person, bob: Person) -> None:
        ada.create_direct(bob)
        claim = "direct%23" + "%23".join(sorted((ada.user_id, bob.user_id)))
        assert ada.get(f"/api/chats/{claim}").code == "chat_not_found"

    def test_a_chat_that_a_stale_read_misses_is_asked_for_again(
        self, ada: Person, chat_id: ChatId, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wire = database.on_loop.wire
        send = wire.call

        async def stale(operation: str, request: dict[str, Any]) -> dict[str, Any]:
            answer = await send(operation, request)
            return answer if request.get("ConsistentRead", False) else {**answer, "Item": None}

        monkeypatch.setattr(wire, "call", stale)
        assert ada.get(f"/api/chats/{chat_id}").status == 200


class TestRenaming:
    def test_everybody_sees_the_new_name(self, ada: Person, bob: Person, chat_id: ChatId, clock: SettableClock) -> None:
        clock.advance(minutes=1)
        answer = ada.patch(f"/api/chats/{chat_id}", {"name": " Neue Gruppe 👩‍👩‍👧 "})
        assert (answer.status, answer.body["name"]) == (200, "Neue Gruppe 👩‍👩‍👧")
        assert answer.body["updated_at"] == "2035-01-30T14:31:00.000Z"
        assert answer.body["created_at"] == "2035-01-30T14:30:00.000Z"
        assert bob.get(f"/api/chats/{chat_id}").body == answer.body

    def test_a_plain_member_may_not(self, bob: Person, chat_id: ChatId) -> None:
        answer = bob.patch(f"/api/chats/{chat_id}", {"name": "Mine"})
        assert (answer.status, answer.code) == (403, "forbidden")

    @pytest.mark.parametrize(
        "body", [{}, {"name": None}, {"name": ""}, {"name": "x" * 101}, {"name": "a", "type": "b"}]
    )
    def test_other_bodies_are_refused(self, ada: Person, chat_id: ChatId, body: object) -> None:
        assert ada.patch(f"/api/chats/{chat_id}", body).status == 422

    def test_a_hundred_characters_are_enough(self, ada: Person, chat_id: ChatId) -> None:
        assert ada.patch(f"/api/chats/{chat_id}", {"name": "ß" * 100}).status == 200


class TestMuting:
    def test_it_lasts_until_the_time_given_and_concerns_only_oneself(
        self, ada: Person, bob: Person, chat_id: ChatId
    ) -> None:
        answer = ada.put(f"/api/chats/{chat_id}/mute", {"muted_until": "2035-02-01T10:00:00+02:00"})
        assert (answer.status, answer.body) == (200, {"chat_id": chat_id, "muted_until": "2035-02-01T08:00:00.000Z"})
        assert ada.get("/api/chats").body["items"][0]["muted_until"] == "2035-02-01T08:00:00.000Z"
        assert bob.get("/api/chats").body["items"][0]["muted_until"] is None

    @pytest.mark.parametrize("end", [None, "2020-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00"])
    def test_null_and_the_past_unmute(self, ada: Person, chat_id: ChatId, end: str | None) -> None:
        ada.put(f"/api/chats/{chat_id}/mute", {"muted_until": "2035-02-01T10:00:00Z"})
        assert ada.put(f"/api/chats/{chat_id}/mute", {"muted_until": end}).body["muted_until"] is None
        assert ada.get("/api/chats").body["items"][0]["muted_until"] is None

    def test_the_end_of_time_is_a_time(self, ada: Person, chat_id: ChatId) -> None:
        answer = ada.put(f"/api/chats/{chat_id}/mute", {"muted_until": "9999-12-31T23:59:59.999-12:00"})
        assert answer.body["muted_until"] == "9999-12-31T23:59:59.999Z"

    @pytest.mark.parametrize("wrong", ["tomorrow", "2035-02-01T10:00:00", "2026-02-01", "", 1769953800, True, ["x"]])
    def test_what_is_no_time_is_refused(self, ada: Person, chat_id: ChatId, wrong: object) -> None:
        answer = ada.put(f"/api/chats/{chat_id}/mute", {"muted_until": wrong})
        assert (answer.status, list(answer.body["errors"])) == (422, ["muted_until"])

    def test_the_time_must_be_named(self, ada: Person, chat_id: ChatId) -> None:
        assert ada.put(f"/api/chats/{chat_id}/mute", {}).status == 422

    def test_who_is_removed_meanwhile_leaves_no_trace(
        self, services: Services, ada: Person, bob: Person, chat_id: ChatId, database: Database
    ) -> None:
        with just_before(database, "UpdateItem", lambda: ada.remove(chat_id, bob)):
            answer = bob.put(f"/api/chats/{chat_id}/mute", {"muted_until": None})
        assert answer.code == "chat_not_found"
        assert services.role_of(chat_id, bob) is None


class TestMethods:
    @pytest.mark.parametrize(
        ("method", "path", "allowed"),
        [
            ("PUT", "/api/chats", "GET, POST, HEAD, OPTIONS"),
            ("POST", "/api/chats/{}", "GET, PATCH, HEAD, OPTIONS"),
            ("GET", "/api/chats/{}/mute", "PUT, OPTIONS"),
            ("PATCH", "/api/chats/{}/members", "GET, POST, HEAD, OPTIONS"),
            ("GET", "/api/chats/{}/members/x", "PATCH, DELETE, OPTIONS"),
        ],
    )
    def test_a_method_that_is_not_offered_is_refused(
        self, ada: Person, chat_id: ChatId, method: str, path: str, allowed: str
    ) -> None:
        answer = ada.call(method, path.format(chat_id))
        assert (answer.status, answer.code) == (405, "method_not_allowed")
        assert answer.headers["Allow"] == allowed
