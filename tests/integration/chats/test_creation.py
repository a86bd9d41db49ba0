"""Chat creation is atomic and idempotent, and incomplete groups are invisible."""

from typing import Any

import pytest

from chats.domain import ChatDraft, ChatType
from chats.services.creation import MAX_MEMBERS_IN_TRANSACTION
from foundation.kernel.clock import SystemClock
from foundation.kernel.ids import ChatId
from foundation.stores.dynamodb import Database
from foundation.stores.errors import StoreUnavailable
from tests.doubles import SettableClock
from tests.integration.chats.services import (
    Person,
    RecordingProducer,
    Services,
    all_at_once,
    captured,
    crowd,
    just_before,
)

KEY = {"Idempotency-Key": "2f1c"}


class Died(BaseException):
    """Stands for the end of the process: nothing catches it."""


def die() -> None:
    raise Died


class TestCreatingAGroup:
    def test_the_creator_owns_it_and_the_others_are_members(self, services: Services) -> None:
        ada, bob, cem = services.user("Ada"), services.user("Bob"), services.user("Cem")
        created = ada.create_group(bob, cem, name="Project Team")
        chat_id = ChatId(created.body["chat_id"])
        assert (created.status, created.body) == (
            201,
            {
                "chat_id": chat_id,
                "type": "group",
                "name": "Project Team",
                "created_by": ada.user_id,
                "created_at": "2035-01-30T14:30:00.000Z",
                "updated_at": "2035-01-30T14:30:00.000Z",
                "last_sequence": 0,
            },
        )
        assert [services.role_of(chat_id, person) for person in (ada, bob, cem)] == ["owner", "member", "member"]
        assert services.counters.find(chat_id) == 0
        assert bob.get(f"/api/chats/{chat_id}").body == created.body

    def test_it_is_written_in_one_transaction(self, services: Services, database: Database) -> None:
        ada, bob = services.user(), services.user()
        with captured(database) as requests:
            assert ada.create_group(bob, **KEY).status == 201
        writes = [kwargs for operation, kwargs in requests if operation not in {"GetItem", "BatchGetItem"}]
        assert len(writes) == 1
        assert len(writes[0]["TransactItems"]) == 5

    def test_it_is_noted_before_it_is_written(self, services: Services, database: Database) -> None:
        ada, bob, before = services.user(), services.user(), list[list[ChatId]]()
        with just_before(database, "TransactWriteItems", lambda: before.append(list(services.noted))):
            group = ada.create_group().body["chat_id"]
        with just_before(database, "TransactWriteItems", lambda: before.append(list(services.noted))):
            direct = ada.post("/api/chats", {"type": "direct", "members": [bob.user_id]}).body["chat_id"]
        assert before == [[group], [group, direct]]

    def test_the_creator_may_be_the_only_member(self, services: Services) -> None:
        ada = services.user()
        chat_id = ada.create_group().body["chat_id"]
        assert len(ada.get(f"/api/chats/{chat_id}/members").body["items"]) == 1

    def test_the_creator_in_the_list_changes_nothing(self, services: Services) -> None:
        ada, bob = services.user(), services.user()
        chat_id = ChatId(ada.create_group(bob, ada).body["chat_id"])
        assert (services.count_members(chat_id), services.role_of(chat_id, ada)) == (2, "owner")

    def test_spaces_around_the_name_are_dropped(self, services: Services) -> None:
        assert services.user().create_group(name="  Team  ").body["name"] == "Team"

    def test_the_event_names_everyone(self, services: Services, published: RecordingProducer) -> None:
        ada, bob = services.user(), services.user()
        chat_id = ada.create_group(bob).body["chat_id"]
        [event] = published.events
        assert (event.event_type, event.partition_key) == ("ChatCreated", chat_id)
        assert event.payload == {
            "chat_id": chat_id,
            "chat_type": "group",
            "name": "Team",
            "created_by": ada.user_id,
            "initial_members": [ada.user_id, bob.user_id],
        }

    @pytest.mark.parametrize("name", ["", " ", "a\nb", "a\x00b", "a\u2028b", "a\u202eb", "x" * 101, None, 7])
    def test_a_name_that_cannot_be_shown_is_refused(self, services: Services, name: object) -> None:
        answer = services.user().post("/api/chats", {"type": "group", "name": name, "members": []})
        assert (answer.status, list(answer.body["errors"])) == (422, ["name"])

    def test_a_group_needs_a_name(self, services: Services) -> None:
        answer = services.user().post("/api/chats", {"type": "group", "members": []})
        assert answer.body["errors"] == {"name": ["A group needs a name."]}

    def test_unknown_members_are_pointed_out(self, services: Services) -> None:
        ada, bob = services.user(), services.user()
        answer = ada.create_group(Person(services.ids.user()), bob, Person(services.ids.user()))
        wrong = ["There is no such user."]
        assert (answer.status, answer.body["errors"]) == (422, {"members.0": wrong, "members.2": wrong})

    def test_members_named_twice_are_pointed_out(self, services: Services) -> None:
        ada, bob = services.user(), services.user()
        answer = ada.create_group(bob, ada, bob)
        assert (answer.status, answer.body["errors"]) == (422, {"members.2": ["This user is named twice."]})

    def test_what_is_not_a_user_id_is_pointed_out(self, services: Services) -> None:
        body = {"type": "group", "name": "T", "members": ["user_1", 5, f"{services.ids.user()}\n"]}
        answer = services.user().post("/api/chats", body)
        assert (answer.status, sorted(answer.body["errors"])) == (422, ["members.0", "members.1", "members.2"])

    def test_a_thousand_others_are_one_too_many(self, services: Services) -> None:
        ada = services.user()
        answer = ada.create_group(*(Person(services.ids.user()) for _ in range(1000)))
        assert (answer.status, list(answer.body["errors"])) == (422, ["members"])

    @pytest.mark.parametrize("body", [[], "x", {"type": "club", "members": []}, {"members": []}, {"type": "group"}])
    def test_other_bodies_are_refused(self, services: Services, body: object) -> None:
        assert services.user().post("/api/chats", body).status == 422


class TestIdempotencyKeys:
    def test_a_retry_returns_the_first_chat(self, services: Services, published: RecordingProducer) -> None:
        ada, bob = services.user(), services.user()
        first, retry = ada.create_group(bob, **KEY), ada.create_group(bob, **KEY)
        assert (first.status, retry.status, retry.body) == (201, 200, first.body)
        assert len(published.events) == 1

    def test_the_key_wins_over_another_body(self, services: Services) -> None:
        ada = services.user()
        first = ada.create_group(name="One", **KEY)
        assert ada.create_group(name="Two", **KEY).body == first.body

    def test_keys_are_scoped_to_their_user(self, services: Services) -> None:
        first, second = services.user().create_group(**KEY), services.user().create_group(**KEY)
        assert (second.status, first.body["chat_id"] == second.body["chat_id"]) == (201, False)

    def test_a_key_expires_after_a_day(self, services: Services, clock: SettableClock) -> None:
        ada = services.user()
        first = ada.create_group(**KEY)
        clock.advance(hours=24)
        again = ada.create_group(**KEY)
        assert (again.status, again.body["chat_id"] == first.body["chat_id"]) == (201, False)

    def test_a_former_member_does_not_get_the_chat(self, services: Services) -> None:
        ada, bob = services.user(), services.user()
        chat_id = ada.create_group(bob, **KEY).body["chat_id"]
        ada.give_role(chat_id, bob, "owner")
        assert ada.remove(chat_id, ada).status == 204
        assert ada.create_group(bob, **KEY).code == "chat_not_found"

    @pytest.mark.parametrize("key", ["", "x" * 129, "two words", "schlüssel"])
    def test_a_key_of_another_form_is_refused(self, services: Services, key: str) -> None:
        answer = services.user().create_group(**{"Idempotency-Key": key})
        assert (answer.status, list(answer.body["errors"])) == (422, ["Idempotency-Key"])

    def test_simultaneous_retries_make_one_chat(self, database: Database) -> None:
        with Services(database, RecordingProducer(), SystemClock()).serving() as services:
            ada, bob = services.user(), services.user()
            answers = all_at_once([lambda: ada.create_group(bob, **KEY)] * 10)
            assert sorted(answer.status for answer in answers) == [200] * 9 + [201]
            assert len({answer.body["chat_id"] for answer in answers}) == 1
            assert len(bob.get("/api/chats").body["items"]) == 1

    def test_an_attempt_whose_answer_was_lost_still_counts(
        self, services: Services, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The engine's client repeats a request that got no answer; the first one may have been carried out."""
        ada, bob = services.user(), services.user()
        wire = database.on_loop.wire
        send = wire.call

        async def send_twice(operation: str, request: dict[str, Any]) -> dict[str, Any]:
            if operation == "TransactWriteItems":
                await send(operation, request)
            return await send(operation, request)

        monkeypatch.setattr(wire, "call", send_twice)
        assert ada.create_group(bob).status == 201
        assert ada.create_group(bob, **KEY).status == 201
        assert ada.create_direct(bob).status == 201


class TestLargeGroups:
    def test_a_group_is_created_with_a_thousand_members(self, services: Services, published: RecordingProducer) -> None:
        ada = services.user("Ada")
        others = crowd(services, 999)
        created = ada.create_group(*others, **KEY)
        chat_id = ChatId(created.body["chat_id"])
        assert (created.status, services.count_members(chat_id)) == (201, 1000)
        assert others[-1].get(f"/api/chats/{chat_id}").status == 200
        assert others[0].get("/api/chats").body["items"][0]["role"] == "member"
        assert len(published.events[0].payload["initial_members"]) == 1000

    @pytest.mark.parametrize(
        ("members", "transaction"), [(MAX_MEMBERS_IN_TRANSACTION, 100), (MAX_MEMBERS_IN_TRANSACTION + 1, 4)]
    )
    def test_a_transaction_is_filled_to_its_limit_and_no_further(
        self, services: Services, database: Database, members: int, transaction: int
    ) -> None:
        ada, others = services.user(), crowd(services, members - 1)
        with captured(database) as requests:
            chat_id = ChatId(ada.create_group(*others, **KEY).body["chat_id"])
        sizes = [len(kwargs["TransactItems"]) for operation, kwargs in requests if operation == "TransactWriteItems"]
        assert sizes == [transaction]
        assert services.count_members(chat_id) == members

    def test_a_group_whose_creation_crashed_is_invisible(self, services: Services, database: Database) -> None:
        ada = services.user("Ada")
        others = crowd(services, 120)
        draft = ChatDraft(ChatType.GROUP, "Team", tuple(other.user_id for other in others))
        with captured(database) as requests, pytest.raises(Died), just_before(database, "TransactWriteItems", die):
            services.creation.create(ada.user_id, draft, key="k")
        [prepared] = {
            put["PutRequest"]["Item"]["chat_id"]["S"]
            for operation, kwargs in requests
            if operation == "BatchWriteItem"
            for puts in kwargs["RequestItems"].values()
            for put in puts
        }
        chat_id, bob = ChatId(prepared), others[0]
        assert services.count_members(chat_id) == 120, "the memberships were there before the death"
        assert bob.get("/api/chats").body == {"items": [], "next_cursor": None}
        for answer in (
            bob.get(f"/api/chats/{chat_id}"),
            bob.get(f"/api/chats/{chat_id}/members"),
            bob.put(f"/api/chats/{chat_id}/mute", {"muted_until": None}),
            bob.remove(chat_id, bob),
        ):
            assert answer.code == "chat_not_found"
        assert services.counters.find(chat_id) is None
        retry = ada.create_group(*others, **{"Idempotency-Key": "k"})
        assert (retry.status, retry.body["chat_id"] == chat_id) == (201, False)
        assert [item["chat_id"] for item in bob.get("/api/chats").body["items"]] == [retry.body["chat_id"]]

    def test_a_failing_store_leaves_no_group(self, services: Services, database: Database) -> None:
        def fail() -> None:
            raise StoreUnavailable

        ada = services.user()
        others = crowd(services, 120)
        with just_before(database, "TransactWriteItems", fail):
            answer = ada.create_group(*others)
        assert (answer.status, answer.code) == (503, "store_unavailable")
        assert ada.get("/api/chats").body["items"] == []

    def test_the_slower_of_two_retries_deletes_its_prepared_memberships(
        self, services: Services, database: Database
    ) -> None:
        ada = services.user()
        others = crowd(services, 120)
        firsts = []
        with just_before(database, "TransactWriteItems", lambda: firsts.append(ada.create_group(*others, **KEY))):
            second = ada.create_group(*others, **KEY)
        assert (firsts[0].status, second.status) == (201, 200)
        assert second.body == firsts[0].body
        listing = services.memberships.list_chat_ids(others[0].user_id, limit=10, after=None)
        assert database.loop.run(listing) == ([second.body["chat_id"]], False)


class TestDirectChats:
    def test_both_are_members_and_it_has_no_name(self, services: Services) -> None:
        ada, bob = services.user(), services.user()
        created = ada.create_direct(bob)
        assert (created.status, created.body["type"], created.body["name"]) == (201, "direct", None)
        chat_id = ChatId(created.body["chat_id"])
        assert [services.role_of(chat_id, person) for person in (ada, bob)] == ["member", "member"]

    def test_creating_it_again_from_either_side_returns_the_first(
        self, services: Services, published: RecordingProducer
    ) -> None:
        ada, bob = services.user(), services.user()
        first = ada.create_direct(bob)
        services.say(ChatId(first.body["chat_id"]), ada.user_id, "hi")
        for again in (ada.create_direct(bob), bob.create_direct(ada)):
            assert (again.status, again.body) == (200, {**first.body, "last_sequence": 1})
        assert len(published.events) == 1

    def test_the_creator_in_the_list_does_not_count(self, services: Services) -> None:
        ada, bob = services.user(), services.user()
        answer = ada.post("/api/chats", {"type": "direct", "members": [ada.user_id, bob.user_id]})
        assert answer.status == 201

    def test_a_user_cannot_have_one_alone(self, services: Services) -> None:
        ada = services.user()
        for members in ([ada.user_id], []):
            answer = ada.post("/api/chats", {"type": "direct", "members": members})
            wrong = {"members": ["A direct chat needs another user than yourself."]}
            assert (answer.status, answer.body["errors"]) == (422, wrong)

    def test_three_are_too_many(self, services: Services) -> None:
        ada, bob, cem = services.user(), services.user(), services.user()
        answer = ada.post("/api/chats", {"type": "direct", "members": [bob.user_id, cem.user_id]})
        assert (answer.status, list(answer.body["errors"])) == (422, ["members"])

    def test_it_takes_no_name(self, services: Services) -> None:
        ada, bob = services.user(), services.user()
        answer = ada.post("/api/chats", {"type": "direct", "name": "Us", "members": [bob.user_id]})
        assert (answer.status, list(answer.body["errors"])) == (422, ["name"])

    def test_an_unknown_partner_is_pointed_out(self, services: Services) -> None:
        answer = services.user().create_direct(Person(services.ids.user()))
        assert (answer.status, list(answer.body["errors"])) == (422, ["members.0"])

    def test_fifty_simultaneous_creations_from_both_sides_make_one_chat(
        self, database: Database, published: RecordingProducer
    ) -> None:
        with Services(database, published, SystemClock()).serving() as services:
            ada, bob = services.user(), services.user()
            sides = [lambda: ada.create_direct(bob), lambda: bob.create_direct(ada)]
            answers = all_at_once(sides * 25)
            assert sorted(answer.status for answer in answers) == [200] * 49 + [201]
            assert len({answer.body["chat_id"] for answer in answers}) == 1
            for person in (ada, bob):
                assert len(person.get("/api/chats").body["items"]) == 1
        assert len(published.events) == 1
