"""Edits, deletions, reactions and pins by REST: what is answered, and with which code it is refused."""

from typing import Any

import pytest

from chats.domain import ChatType, Role
from messaging.domain import MAX_EMOJI
from tests.integration.messaging.services import Caller, Services

NOT_FOUND = (404, "message_not_found")
FORBIDDEN = (403, "forbidden")
DELETED = (409, "message_deleted")


class Group:
    """A group of an owner and two members, whose first message is Mia's, and a stranger; each has a client."""

    def __init__(self, services: Services) -> None:
        self.chat_id, self.people = services.create_room(
            ChatType.GROUP, owner=Role.OWNER, mia=Role.MEMBER, max=Role.MEMBER
        )
        self.owner, self.mia, self.max = (Caller(self.people[name]) for name in ("owner", "mia", "max"))
        self.stranger = Caller(services.ids.user())
        self.path = f"/api/chats/{self.chat_id}/messages"
        self.first = f"{self.path}/1"
        self.thumb = f"{self.first}/reactions/👍"
        self.pins = f"/api/chats/{self.chat_id}/pins"
        self.send("hello")

    def send(self, content: str) -> dict[str, Any]:
        return self.mia.post(self.path, {"client_message_id": content, "content": content})[1]

    def shown(self) -> dict[str, Any]:
        return self.max.get(self.first)[1]

    @property
    def latest(self) -> int:
        latest: int = self.max.get(self.path)[1]["latest_sequence"]
        return latest


@pytest.fixture
def group(services: Services) -> Group:
    return Group(services)


def refusal(answer: tuple[int, dict[str, Any]]) -> tuple[int, str]:
    return answer[0], answer[1]["code"]


def outcome(answer: tuple[int, dict[str, Any]]) -> tuple[int, str, str | None, int, bool]:
    """Status, kind, action, sequence and whether it is a duplicate."""
    status, entry = answer
    return status, entry["kind"], entry.get("action"), entry["sequence"], entry["duplicate"]


class TestEditing:
    BODY = {"client_message_id": "e-1", "content": "better"}

    def test_an_edit_is_answered_with_its_entry_and_a_retry_with_the_same(self, group: Group) -> None:
        status, edit = group.mia.patch(group.first, self.BODY)
        assert (status, edit["kind"], edit["target"], edit["content"]) == (200, "edit", 1, "better")
        assert group.mia.patch(group.first, self.BODY) == (200, {**edit, "duplicate": True})
        assert (group.shown()["content"], group.shown()["edited_at"]) == ("better", edit["created_at"])

    def test_mentions_are_replaced(self, group: Group) -> None:
        group.mia.patch(group.first, {**self.BODY, "mentions": [group.people["max"]]})
        assert group.shown()["mentions"] == [group.people["max"]]

    def test_refusals(self, group: Group) -> None:
        assert refusal(group.max.patch(group.first, self.BODY)) == FORBIDDEN
        assert refusal(group.mia.patch(f"{group.path}/9", self.BODY)) == NOT_FOUND
        assert refusal(group.stranger.patch(group.first, self.BODY)) == (404, "chat_not_found")
        assert refusal(group.mia.patch(group.first, {**self.BODY, "client_message_id": "hello"})) == (
            409,
            "client_message_id_conflict",
        )
        group.mia.delete(group.first)
        assert refusal(group.mia.patch(group.first, self.BODY)) == DELETED


class TestDeleting:
    def test_the_content_goes_and_the_place_stays(self, group: Group) -> None:
        status, deletion = group.mia.delete(group.first)
        assert (status, deletion["kind"], deletion["target"], deletion["duplicate"]) == (200, "deletion", 1, False)
        assert (group.shown()["content"], group.shown()["deleted_at"]) == ("", deletion["created_at"])

    def test_deleting_again_answers_the_first_deletion(self, group: Group) -> None:
        deletion = group.mia.delete(group.first)[1]
        assert group.owner.delete(group.first) == (200, {**deletion, "duplicate": True})

    def test_the_idempotency_key_is_the_id_of_the_deletion(self, group: Group) -> None:
        group.send("second")
        deletion = group.mia.delete(group.first, key="d-1")[1]
        assert deletion["client_message_id"] == "d-1"
        assert group.mia.delete(group.first, key="d-1") == (200, {**deletion, "duplicate": True})
        assert refusal(group.mia.delete(f"{group.path}/2", key="d-1")) == (409, "client_message_id_conflict")

    def test_a_key_that_is_no_id_is_refused(self, group: Group) -> None:
        status, problem = group.mia.delete(group.first, key="x" * 129)
        assert (status, list(problem["errors"])) == (422, ["client_message_id"])

    def test_the_owner_deletes_what_others_wrote_and_members_do_not(self, group: Group) -> None:
        assert refusal(group.max.delete(group.first)) == FORBIDDEN
        assert refusal(group.max.delete(f"{group.path}/9")) == NOT_FOUND
        assert group.owner.delete(group.first)[0] == 200


class TestReacting:
    def test_a_reaction_comes_and_goes(self, group: Group) -> None:
        assert outcome(group.max.put(group.thumb)) == (200, "reaction", "add", 2, False)
        assert group.shown()["reactions"] == [{"emoji": "👍", "count": 1, "user_ids": [group.people["max"]]}]
        assert outcome(group.max.delete(group.thumb)) == (200, "reaction", "remove", 3, False)
        assert "reactions" not in group.shown()

    def test_where_nothing_changes_there_is_no_entry(self, group: Group) -> None:
        assert group.max.delete(group.thumb) == (200, {"duplicate": True, "sequence": None, "message": group.shown()})
        group.max.put(group.thumb)
        assert group.max.put(group.thumb) == (200, {"duplicate": True, "sequence": None, "message": group.shown()})
        assert group.latest == 2

    def test_the_list_has_the_callers_own_first_page_by_page(self, group: Group) -> None:
        for caller in (group.owner, group.mia, group.max):
            caller.put(group.thumb)
        group.max.put(f"{group.first}/reactions/🎉")
        found: list[list[tuple[str, str]]] = []
        cursor: dict[str, str | int] = {}
        while True:
            status, page = group.max.get(f"{group.first}/reactions", limit=2, **cursor)
            assert status == 200
            found.append([(each["emoji"], each["user_id"]) for each in page["items"]])
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        others = sorted(("👍", group.people[name]) for name in ("owner", "mia"))
        assert found == [[("🎉", group.people["max"]), ("👍", group.people["max"])], others]

    def test_a_cursor_of_somebody_else_is_refused(self, group: Group) -> None:
        for caller in (group.mia, group.max):
            caller.put(group.thumb)
        cursor = group.max.get(f"{group.first}/reactions", limit=1)[1]["next_cursor"]
        assert group.mia.get(f"{group.first}/reactions", cursor=cursor)[0] == 400

    def test_more_than_twenty_emoji_are_too_many(self, group: Group) -> None:
        for number in range(MAX_EMOJI):
            assert group.max.put(f"{group.first}/reactions/{chr(0x1F600 + number)}")[0] == 200
        assert refusal(group.max.put(group.thumb)) == (409, "too_many_reactions")

    def test_refusals(self, group: Group) -> None:
        assert refusal(group.max.put(f"{group.path}/9/reactions/👍")) == NOT_FOUND
        assert refusal(group.max.get(f"{group.path}/9/reactions")) == NOT_FOUND
        assert refusal(group.max.put(f"{group.first}/reactions/no")) == (422, "invalid_request")
        assert refusal(group.stranger.put(group.thumb)) == (404, "chat_not_found")
        assert refusal(group.stranger.get(f"{group.first}/reactions")) == (404, "chat_not_found")
        group.mia.delete(group.first)
        for answer in (group.max.put(group.thumb), group.max.delete(group.thumb)):
            assert refusal(answer) == DELETED


class TestPinning:
    def test_a_pin_comes_and_goes(self, group: Group) -> None:
        assert outcome(group.owner.put(f"{group.pins}/1")) == (200, "pin", "add", 2, False)
        assert group.max.get(group.pins) == (200, {"items": [group.shown()]})
        assert outcome(group.owner.delete(f"{group.pins}/1")) == (200, "pin", "remove", 3, False)
        assert group.max.get(group.pins) == (200, {"items": []})

    def test_where_nothing_changes_there_is_no_entry(self, group: Group) -> None:
        unchanged = (200, {"duplicate": True, "sequence": None, "message": group.shown()})
        assert group.owner.delete(f"{group.pins}/1") == unchanged
        group.owner.put(f"{group.pins}/1")
        assert group.owner.put(f"{group.pins}/1") == unchanged
        assert group.latest == 2

    def test_the_newest_pin_is_first(self, group: Group) -> None:
        for content in ("second", "third"):
            group.send(content)
        for sequence in (2, 1, 3):
            group.owner.put(f"{group.pins}/{sequence}")
        assert [message["sequence"] for message in group.max.get(group.pins)[1]["items"]] == [3, 1, 2]

    def test_refusals(self, group: Group) -> None:
        assert refusal(group.max.put(f"{group.pins}/1")) == FORBIDDEN
        assert refusal(group.owner.put(f"{group.pins}/9")) == NOT_FOUND
        assert refusal(group.stranger.get(group.pins)) == (404, "chat_not_found")
        group.mia.delete(group.first)
        assert refusal(group.owner.put(f"{group.pins}/1")) == DELETED
