"""The inbox: a user's chats, what was said last, and how much of it is unread."""

import pytest

from chats.domain import Membership, Role
from delivery.domain import Mark
from foundation.kernel.ids import ChatId
from foundation.stores.dynamodb import Database
from messaging.models import MessageModel
from tests.doubles import SettableClock
from tests.integration.chats.services import Person, Services


@pytest.fixture
def ada(services: Services) -> Person:
    return services.user("Ada")


@pytest.fixture
def bob(services: Services) -> Person:
    return services.user("Bob")


def listed(person: Person, **query: object) -> list[str]:
    return [item["chat_id"] for item in person.get("/api/chats", **query).body["items"]]


class TestAnEntry:
    def test_it_tells_all_that_a_list_of_chats_shows(self, services: Services, ada: Person, bob: Person) -> None:
        chat = ada.create_group(bob, name="Team").body
        chat_id = ChatId(chat["chat_id"])
        for content in ("one", "two", "three"):
            services.say(chat_id, ada.user_id, content)
        moving = services.watermarks.advance((bob.user_id, chat_id), Mark.ACKED, 1, now=services.clock.now())
        services.database.loop.run(moving)
        [entry] = bob.get("/api/chats").body["items"]
        last_message = entry.pop("last_message")
        assert entry == {
            **chat,
            "last_sequence": 3,
            "role": "member",
            "muted_until": None,
            "last_acked_sequence": 1,
            "last_read_sequence": 0,
            "unread_after": 1,
            "unread_count": 2,
        }
        assert (last_message["sequence"], last_message["content"], last_message["sender_id"]) == (
            3,
            "three",
            ada.user_id,
        )
        assert set(last_message) == {
            "message_id",
            "chat_id",
            "sequence",
            "sender_id",
            "client_message_id",
            "content",
            "content_type",
            "kind",
            "created_at",
        }

    def test_a_silent_chat_has_no_last_message_and_nothing_unread(self, ada: Person) -> None:
        ada.create_group()
        [entry] = ada.get("/api/chats").body["items"]
        assert (entry["last_sequence"], entry["last_acked_sequence"], entry["unread_count"]) == (0, 0, 0)
        assert entry["last_message"] is None

    def test_everything_is_unread_by_who_never_acknowledged(self, services: Services, ada: Person, bob: Person) -> None:
        chat_id = ChatId(ada.create_direct(bob).body["chat_id"])
        services.say(chat_id, ada.user_id, "hi")
        assert bob.get("/api/chats").body["items"][0]["unread_count"] == 1


class TestWhatIsUnread:
    """Messages only, whatever else happens in the chat."""

    def test_other_entries_are_not_counted(self, ada: Person, bob: Person) -> None:
        chat_id = ada.create_group(bob).body["chat_id"]
        path = f"/api/chats/{chat_id}/messages"
        ada.post(path, {"client_message_id": "1", "content": "one"})
        ada.put(f"{path}/1/reactions/%F0%9F%91%8D", {})
        ada.post(path, {"client_message_id": "2", "content": "two"})
        ada.patch(f"/api/chats/{chat_id}", {"name": "New"})
        assert unread(bob) == 2
        for acked, left in ((1, 1), (2, 1), (3, 0), (4, 0)):
            bob.post(f"/api/chats/{chat_id}/ack", {"sequence": acked})
            assert unread(bob) == left
        ada.patch(f"{path}/3", {"client_message_id": "3", "content": "two, edited"})
        [entry] = bob.get("/api/chats").body["items"]
        assert (entry["unread_count"], entry["last_sequence"]) == (0, 5)
        assert (entry["last_message"]["sequence"], entry["last_message"]["content"]) == (3, "two, edited")
        ada.post(path, {"client_message_id": "4", "content": "three"})
        assert unread(bob) == 1

    def test_messages_of_a_process_that_does_not_count_other_entries_are_counted(
        self, services: Services, ada: Person, bob: Person
    ) -> None:
        chat_id = ada.create_group(bob).body["chat_id"]
        path = f"/api/chats/{chat_id}/messages"
        ada.post(path, {"client_message_id": "1", "content": "one"})
        ada.put(f"{path}/1/reactions/%F0%9F%91%8D", {})
        for number in ("2", "3"):
            ada.post(path, {"client_message_id": number, "content": "by an older process"})
        for sequence in (3, 4):
            services.database.call(
                "UpdateItem",
                {
                    "TableName": services.database.table_name(MessageModel),
                    "Key": {"chat_id": {"S": chat_id}, "sequence": {"N": str(sequence)}},
                    "UpdateExpression": "REMOVE #others",
                    "ExpressionAttributeNames": {"#others": "others"},
                },
            )
        for acked, left in ((2, 2), (3, 1), (4, 0)):
            bob.post(f"/api/chats/{chat_id}/ack", {"sequence": acked})
            assert unread(bob) == left

    def test_a_newcomer_has_nothing_unread_from_before(self, ada: Person, bob: Person) -> None:
        chat_id = ada.create_group().body["chat_id"]
        for number in range(3):
            ada.post(f"/api/chats/{chat_id}/messages", {"client_message_id": str(number), "content": "before"})
        ada.add(chat_id, bob)
        assert unread(bob) == 0
        ada.post(f"/api/chats/{chat_id}/messages", {"client_message_id": "after", "content": "after"})
        assert unread(bob) == 1
        assert unread(ada) == 4, "who never acknowledged has everything unread"

    def test_a_chat_of_notices_alone_has_no_last_message(self, ada: Person) -> None:
        chat_id = ada.create_group().body["chat_id"]
        ada.patch(f"/api/chats/{chat_id}", {"name": "New"})
        [entry] = ada.get("/api/chats").body["items"]
        assert (entry["last_sequence"], entry["unread_count"], entry["last_message"]) == (1, 0, None)


def unread(person: Person) -> int:
    [entry] = person.get("/api/chats").body["items"]
    return int(entry["unread_count"])


class TestTheList:
    def test_the_youngest_chat_comes_first(self, ada: Person, clock: SettableClock) -> None:
        made = []
        for name in ("one", "two", "three"):
            made.append(ada.create_group(name=name).body["chat_id"])
            clock.advance(seconds=1)
        assert listed(ada) == made[::-1]

    def test_pages_are_stable_while_chats_come_and_go(self, ada: Person, bob: Person, clock: SettableClock) -> None:
        made = []
        for _ in range(7):
            made.append(bob.create_group(ada).body["chat_id"])
            clock.advance(seconds=1)
        first = ada.get("/api/chats", limit=3).body
        bob.create_group(ada)
        bob.remove(first["items"][2]["chat_id"], ada)
        second = ada.get("/api/chats", limit=3, cursor=first["next_cursor"]).body
        third = ada.get("/api/chats", limit=3, cursor=second["next_cursor"]).body
        pages = [[item["chat_id"] for item in page["items"]] for page in (first, second, third)]
        assert pages == [made[:3:-1], made[3:0:-1], made[:1]]
        assert third["next_cursor"] is None

    def test_a_page_that_ends_with_the_list_says_so(self, ada: Person) -> None:
        for _ in range(2):
            ada.create_group()
        assert ada.get("/api/chats", limit=2).body["next_cursor"] is None

    def test_the_largest_page_is_read_in_bounded_batches(self, services: Services, ada: Person) -> None:
        memberships = [
            Membership(services.ids.chat(), ada.user_id, Role.MEMBER, services.clock.now()) for _ in range(150)
        ]
        services.memberships.prepare(memberships)
        whole = [ada.create_group().body["chat_id"] for _ in range(60)]
        first = ada.get("/api/chats", limit=200).body
        second = ada.get("/api/chats", limit=200, cursor=first["next_cursor"]).body
        found = [item["chat_id"] for page in (first, second) for item in page["items"]]
        assert (sorted(found), second["next_cursor"]) == (sorted(whole), None)

    def test_a_group_that_was_never_finished_is_left_out(self, services: Services, ada: Person) -> None:
        membership = Membership(services.ids.chat(), ada.user_id, Role.MEMBER, services.clock.now())
        services.memberships.prepare([membership])
        chat_id = ada.create_group().body["chat_id"]
        assert listed(ada) == [chat_id]

    def test_a_membership_that_only_the_index_still_has_shows_nothing(
        self, services: Services, ada: Person, bob: Person, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The index may be behind; what was said in the chat must not be told to who was removed from it."""
        chat_id = ChatId(ada.create_group(bob).body["chat_id"])
        services.say(chat_id, ada.user_id, "not for Bob")
        ada.remove(chat_id, bob)

        async def behind(*args: object, **options: object) -> tuple[list[ChatId], bool]:
            return [chat_id], False

        monkeypatch.setattr(services.memberships, "list_chat_ids", behind)
        assert listed(bob) == []

    def test_cursors_are_bound_to_their_owner(self, ada: Person, bob: Person) -> None:
        for _ in range(2):
            ada.create_group()
        cursor = ada.get("/api/chats", limit=1).body["next_cursor"]
        for answer in (bob.get("/api/chats", cursor=cursor), ada.get("/api/chats", cursor="forged")):
            assert (answer.status, answer.code) == (400, "invalid_request")

    @pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 201}, {"limit": "all"}, {"page": 2}])
    def test_queries_that_make_no_sense_are_refused(self, ada: Person, query: dict[str, object]) -> None:
        answer = ada.get("/api/chats", **query)
        assert (answer.status, list(answer.body["errors"])) == (422, list(query))

    def test_nobody_gets_a_list_without_a_token(self, services: Services) -> None:
        answer = Person(services.ids.user()).call("GET", "/api/chats", headers={"Authorization": ""})
        assert (answer.status, answer.code) == (401, "authentication_required")
