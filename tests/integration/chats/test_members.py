"""Adding and removing members and changing roles, also under concurrent changes."""

from functools import partial

import pytest

from chats.domain import ChatDraft, ChatType, Role
from chats.errors import MemberNotFound, OwnerMustTransfer, RoleTooLow
from chats.services.members import Members
from foundation.kernel.clock import SystemClock
from foundation.kernel.ids import ChatId
from foundation.stores.dynamodb import Database
from tests.doubles import SettableClock
from tests.integration.chats.services import (
    Person,
    RecordingProducer,
    Services,
    all_at_once,
    captured,
    just_before,
)


class Team:
    """A group with one of each role."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.elsewhere = Services(services.database, RecordingProducer(), services.clock).members
        """The members as another process changes them."""
        self.owner, self.admin, self.member = services.user("Olga"), services.user("Adam"), services.user("Mia")
        ids = (self.admin.user_id, self.member.user_id)
        draft = ChatDraft(ChatType.GROUP, "Team", ids)
        self.chat_id = services.creation.create(self.owner.user_id, draft).state.chat.chat_id
        services.members.change_role(self.chat_id, self.owner.user_id, self.admin.user_id, Role.ADMIN)

    @property
    def members(self) -> Members:
        return self.services.members

    def roles(self) -> list[str | None]:
        return [self.services.role_of(self.chat_id, person) for person in (self.owner, self.admin, self.member)]

    def owners(self) -> int:
        page = self.services.memberships.list_of_chat(self.chat_id, limit=100, after=None)
        return sum(membership.role is Role.OWNER for membership in page.memberships)


@pytest.fixture
def team(services: Services, published: RecordingProducer) -> Team:
    team = Team(services)
    published.events.clear()
    return team


class TestListing:
    def test_members_come_with_names_and_roles(self, team: Team) -> None:
        answer = team.member.get(f"/api/chats/{team.chat_id}/members")
        joined = {"joined_at": "2035-01-30T14:30:00.000Z"}
        expected = [
            {"user_id": team.owner.user_id, "display_name": "Olga", "role": "owner", **joined},
            {"user_id": team.admin.user_id, "display_name": "Adam", "role": "admin", **joined},
            {"user_id": team.member.user_id, "display_name": "Mia", "role": "member", **joined},
        ]
        assert answer.status == 200
        assert answer.body["items"] == sorted(expected, key=lambda item: item["user_id"])
        assert answer.body["next_cursor"] is None

    def test_pages_neither_repeat_nor_skip_while_others_come_and_go(self, team: Team) -> None:
        path, seen = f"/api/chats/{team.chat_id}/members", list[str]()
        cursor: dict[str, str] = {}
        everybody = {person.user_id for person in (team.owner, team.admin, team.member)}
        while True:
            page = team.owner.get(path, limit=1, **cursor).body
            seen += [item["user_id"] for item in page["items"]]
            team.owner.add(team.chat_id, team.services.user())
            if page["next_cursor"] is None or len(seen) > 10:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert seen == sorted(set(seen))
        assert everybody <= set(seen)

    def test_names_come_in_one_batch(self, team: Team, database: Database) -> None:
        with captured(database) as requests:
            team.owner.get(f"/api/chats/{team.chat_id}/members")
        assert [operation for operation, _ in requests] == ["GetItem", "GetItem", "Query", "BatchGetItem"]

    def test_a_cursor_serves_its_owner_and_its_chat_only(self, team: Team) -> None:
        path = f"/api/chats/{team.chat_id}/members"
        cursor = team.owner.get(path, limit=1).body["next_cursor"]
        other = team.owner.create_group().body["chat_id"]
        assert team.owner.get(path, cursor=cursor).status == 200
        for answer in (
            team.admin.get(path, cursor=cursor),
            team.owner.get(f"/api/chats/{other}/members", cursor=cursor),
            team.owner.get(path, cursor=cursor + "x"),
            team.owner.get(path, cursor="\0"),
            team.owner.get("/api/chats", cursor=cursor),
        ):
            assert (answer.status, list(answer.body["errors"])) == (400, ["cursor"])

    @pytest.mark.parametrize("limit", ["0", "201", "-1", "x", ""])
    def test_limits_beyond_reason_are_refused(self, team: Team, limit: str) -> None:
        answer = team.owner.get(f"/api/chats/{team.chat_id}/members", limit=limit)
        assert (answer.status, list(answer.body["errors"])) == (422, ["limit"])


class TestAdding:
    def test_the_new_member_is_in_at_once(self, team: Team, published: RecordingProducer) -> None:
        nora = team.services.user("Nora")
        answer = team.admin.add(team.chat_id, nora)
        assert (answer.status, answer.body) == (
            200,
            {
                "user_id": nora.user_id,
                "display_name": "Nora",
                "role": "member",
                "joined_at": "2035-01-30T14:30:00.000Z",
            },
        )
        assert nora.get(f"/api/chats/{team.chat_id}").status == 200
        assert [event.payload for event in published.events] == [
            {
                "chat_id": team.chat_id,
                "user_id": nora.user_id,
                "change_type": "added",
                "role": "member",
                "changed_by": team.admin.user_id,
                "sequence": 2,
            }
        ]

    def test_the_owner_may_add_an_admin_and_an_admin_may_not(self, team: Team) -> None:
        nora = team.services.user()
        assert team.admin.add(team.chat_id, nora, role="admin").code == "forbidden"
        assert team.owner.add(team.chat_id, nora, role="admin").body["role"] == "admin"

    def test_nobody_is_added_as_owner(self, team: Team) -> None:
        answer = team.owner.add(team.chat_id, team.services.user(), role="owner")
        assert (answer.status, list(answer.body["errors"])) == (422, ["role"])

    def test_who_is_in_is_not_added_again(self, team: Team, published: RecordingProducer) -> None:
        answer = team.owner.add(team.chat_id, team.admin)
        assert (answer.status, answer.code) == (409, "already_a_member")
        assert team.roles() == ["owner", "admin", "member"]
        assert published.events == []

    def test_an_unknown_user_is_pointed_out(self, team: Team) -> None:
        answer = team.owner.add(team.chat_id, Person(team.services.ids.user()))
        assert (answer.status, answer.body["errors"]) == (422, {"user_id": ["There is no such user."]})

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"action": "add"}, "user_id"),
            ({"user_id": "user_1", "action": "add"}, "user_id"),
            ({"user_id": "user_01HQX4Z9V7JY3W8K2M5N6P0R1S", "action": "ban"}, "action"),
            ({"user_id": "user_01HQX4Z9V7JY3W8K2M5N6P0R1S"}, "action"),
            ({"user_id": "user_01HQX4Z9V7JY3W8K2M5N6P0R1S", "action": "remove", "role": "admin"}, "role"),
            ({"user_id": "user_01HQX4Z9V7JY3W8K2M5N6P0R1S", "action": "add", "rôle": "admin"}, "rôle"),
        ],
    )
    def test_other_bodies_are_refused(self, team: Team, body: object, field: str) -> None:
        answer = team.owner.post(f"/api/chats/{team.chat_id}/members", body)
        assert (answer.status, list(answer.body["errors"])) == (422, [field])


class TestRemoving:
    def test_a_removed_member_loses_access_with_the_next_request(
        self, team: Team, published: RecordingProducer
    ) -> None:
        assert team.admin.remove(team.chat_id, team.member).status == 204
        assert team.member.get(f"/api/chats/{team.chat_id}").code == "chat_not_found"
        assert team.member.get("/api/chats").body["items"] == []
        assert [event.payload for event in published.events] == [
            {
                "chat_id": team.chat_id,
                "user_id": team.member.user_id,
                "change_type": "removed",
                "role": "member",
                "changed_by": team.admin.user_id,
                "sequence": 2,
            }
        ]

    def test_the_other_form_removes_too(self, team: Team) -> None:
        body = {"user_id": team.member.user_id, "action": "remove"}
        answer = team.owner.post(f"/api/chats/{team.chat_id}/members", body)
        assert (answer.status, answer.body) == (200, {"user_id": team.member.user_id, "removed": True})
        assert team.roles() == ["owner", "admin", None]

    def test_only_the_owner_removes_admins_and_nobody_the_owner(self, team: Team) -> None:
        eve = team.services.user()
        team.owner.add(team.chat_id, eve, role="admin")
        assert team.admin.remove(team.chat_id, eve).code == "forbidden"
        assert team.admin.remove(team.chat_id, team.owner).code == "forbidden"
        assert team.owner.remove(team.chat_id, team.admin).status == 204
        assert team.roles() == ["owner", None, "member"]

    def test_who_is_not_in_cannot_be_removed(self, team: Team) -> None:
        answer = team.owner.remove(team.chat_id, team.services.user())
        assert (answer.status, answer.code) == (404, "member_not_found")
        assert team.owner.delete(f"/api/chats/{team.chat_id}/members/nobody").code == "member_not_found"

    def test_everybody_but_the_owner_may_leave(self, team: Team, published: RecordingProducer) -> None:
        assert [p.remove(team.chat_id, p).status for p in (team.admin, team.member)] == [204, 204]
        assert [event.payload["changed_by"] for event in published.events] == [team.admin.user_id, team.member.user_id]
        answer = team.owner.remove(team.chat_id, team.owner)
        assert (answer.status, answer.code) == (409, "owner_must_transfer")
        assert team.roles() == ["owner", None, None]

    def test_who_returns_starts_as_a_plain_member(self, team: Team) -> None:
        team.admin.remove(team.chat_id, team.admin)
        team.owner.add(team.chat_id, team.admin)
        assert team.roles() == ["owner", "member", "member"]


class TestRoles:
    def test_the_owner_appoints_and_dismisses_admins(self, team: Team, published: RecordingProducer) -> None:
        answer = team.owner.give_role(team.chat_id, team.member, "admin")
        assert (answer.status, answer.body["role"], answer.body["display_name"]) == (200, "admin", "Mia")
        assert team.owner.give_role(team.chat_id, team.admin, "member").status == 200
        assert team.roles() == ["owner", "member", "admin"]
        assert [(e.payload["change_type"], e.payload["user_id"], e.payload["role"]) for e in published.events] == [
            ("role_changed", team.member.user_id, "admin"),
            ("role_changed", team.admin.user_id, "member"),
        ]

    def test_handing_over_makes_the_old_owner_an_admin(self, team: Team, published: RecordingProducer) -> None:
        answer = team.owner.give_role(team.chat_id, team.member, "owner")
        assert (answer.status, answer.body["role"]) == (200, "owner")
        assert team.roles() == ["admin", "admin", "owner"]
        assert [(event.payload["user_id"], event.payload["role"]) for event in published.events] == [
            (team.member.user_id, "owner"),
            (team.owner.user_id, "admin"),
        ]
        assert team.owner.remove(team.chat_id, team.owner).status == 204

    def test_the_same_role_again_publishes_no_event(self, team: Team, published: RecordingProducer) -> None:
        assert team.owner.give_role(team.chat_id, team.admin, "admin").body["role"] == "admin"
        assert team.owner.give_role(team.chat_id, team.owner, "owner").body["role"] == "owner"
        assert published.events == []

    def test_the_owner_cannot_give_up_the_role(self, team: Team) -> None:
        for role in ("admin", "member"):
            assert team.owner.give_role(team.chat_id, team.owner, role).code == "owner_must_transfer"
        assert team.owners() == 1

    def test_nobody_else_changes_roles(self, team: Team) -> None:
        for person in (team.admin, team.member):
            for role in ("owner", "admin", "member"):
                assert person.give_role(team.chat_id, person, role).code == "forbidden"
                assert person.give_role(team.chat_id, team.owner, role).code == "forbidden"
        assert team.roles() == ["owner", "admin", "member"]

    def test_non_members_and_unknown_roles_are_refused(self, team: Team) -> None:
        assert team.owner.give_role(team.chat_id, team.services.user(), "admin").code == "member_not_found"
        assert team.owner.give_role(team.chat_id, team.admin, "king").status == 422


class TestDirectChats:
    def test_nothing_about_them_changes(self, services: Services) -> None:
        ada, bob, cem = services.user(), services.user(), services.user()
        chat_id = ada.create_direct(bob).body["chat_id"]
        for answer in (
            ada.add(chat_id, cem),
            ada.remove(chat_id, bob),
            ada.remove(chat_id, ada),
            ada.give_role(chat_id, bob, "admin"),
            ada.give_role(chat_id, bob, "owner"),
            ada.patch(f"/api/chats/{chat_id}", {"name": "Us"}),
            ada.post(f"/api/chats/{chat_id}/members", {"user_id": bob.user_id, "action": "remove"}),
        ):
            assert (answer.status, answer.code) == (409, "direct_chat_is_fixed")
        assert [services.role_of(chat_id, person) for person in (ada, bob, cem)] == ["member", "member", None]


class TestConcurrentChanges:
    """The concurrent change happens between the check and the write."""

    def test_a_member_promoted_meanwhile_is_not_removed_by_an_admin(self, team: Team, database: Database) -> None:
        def promote() -> None:
            team.elsewhere.change_role(team.chat_id, team.owner.user_id, team.member.user_id, Role.ADMIN)

        with just_before(database, "TransactWriteItems", promote), pytest.raises(RoleTooLow):
            team.members.remove(team.chat_id, team.admin.user_id, team.member.user_id)
        assert team.roles() == ["owner", "admin", "admin"]

    def test_an_admin_demoted_meanwhile_is_still_removed_by_the_owner(self, team: Team, database: Database) -> None:
        def demote() -> None:
            team.elsewhere.change_role(team.chat_id, team.owner.user_id, team.admin.user_id, Role.MEMBER)

        with just_before(database, "TransactWriteItems", demote):
            team.members.remove(team.chat_id, team.owner.user_id, team.admin.user_id)
        assert team.roles() == ["owner", None, "member"]

    def test_who_becomes_the_owner_while_leaving_stays(self, team: Team, database: Database) -> None:
        def hand_over() -> None:
            team.elsewhere.change_role(team.chat_id, team.owner.user_id, team.admin.user_id, Role.OWNER)

        with just_before(database, "TransactWriteItems", hand_over), pytest.raises(OwnerMustTransfer):
            team.members.remove(team.chat_id, team.admin.user_id, team.admin.user_id)
        assert (team.roles(), team.owners()) == (["admin", "owner", "member"], 1)

    def test_a_member_who_leaves_meanwhile_does_not_become_the_owner(self, team: Team, database: Database) -> None:
        def leave() -> None:
            team.elsewhere.remove(team.chat_id, team.admin.user_id, team.admin.user_id)

        with just_before(database, "TransactWriteItems", leave), pytest.raises(MemberNotFound):
            team.members.change_role(team.chat_id, team.owner.user_id, team.admin.user_id, Role.OWNER)
        assert team.roles() == ["owner", None, "member"]

    def test_the_ownership_is_not_given_away_twice(self, team: Team, database: Database) -> None:
        def to_admin() -> None:
            team.elsewhere.change_role(team.chat_id, team.owner.user_id, team.admin.user_id, Role.OWNER)

        with just_before(database, "TransactWriteItems", to_admin), pytest.raises(RoleTooLow):
            team.members.change_role(team.chat_id, team.owner.user_id, team.member.user_id, Role.OWNER)
        assert team.roles() == ["admin", "owner", "member"]

    def test_a_new_owner_is_not_demoted_by_the_old_one(self, team: Team, database: Database) -> None:
        def hand_over() -> None:
            team.elsewhere.change_role(team.chat_id, team.owner.user_id, team.admin.user_id, Role.OWNER)

        with just_before(database, "TransactWriteItems", hand_over), pytest.raises(RoleTooLow):
            team.members.change_role(team.chat_id, team.owner.user_id, team.admin.user_id, Role.MEMBER)
        assert team.owners() == 1

    def test_a_member_who_came_back_is_not_mistaken_for_the_one_who_was_seen(
        self, team: Team, database: Database, clock: SettableClock
    ) -> None:
        def leave_and_return() -> None:
            team.elsewhere.remove(team.chat_id, team.member.user_id, team.member.user_id)
            clock.advance(seconds=1)
            team.elsewhere.add(team.chat_id, team.owner.user_id, team.member.user_id, Role.MEMBER)

        with captured(database) as requests, just_before(database, "TransactWriteItems", leave_and_return):
            team.members.remove(team.chat_id, team.admin.user_id, team.member.user_id)
        deletions = [kwargs for operation, kwargs in requests if operation == "TransactWriteItems"]
        assert len(deletions) == 4, "the leaving and the return, the refused attempt, and the one decided anew"
        assert team.roles() == ["owner", "admin", None]

    def test_many_concurrent_changes_leave_exactly_one_owner(self, database: Database) -> None:
        with Services(database, RecordingProducer(), SystemClock()).serving() as services:
            team = Team(services)
            people = (team.owner, team.admin, team.member)
            for _ in range(3):
                hand_overs = [partial(a.give_role, team.chat_id, b, "owner") for a in people for b in people]
                leavings = [partial(a.remove, team.chat_id, a) for a in people]
                joins = [partial(a.add, team.chat_id, b) for a in people for b in people]
                answers = all_at_once([*hand_overs, *leavings, *joins])
                assert team.owners() == 1
                assert {answer.status for answer in answers} <= {200, 204, 403, 404, 409}


def test_a_left_chat_keeps_its_other_members(team: Team) -> None:
    team.member.remove(team.chat_id, team.member)
    items = team.owner.get(f"/api/chats/{ChatId(team.chat_id)}/members").body["items"]
    assert {item["user_id"] for item in items} == {team.owner.user_id, team.admin.user_id}
