"""The rights of each role, and the validation of drafts."""

import pytest

from chats.domain import MAX_MEMBERS, ChatDraft, ChatType, Role
from foundation.kernel.errors import Invalid
from foundation.kernel.ids import UserId

ADA, BOB, CEM = UserId("ada"), UserId("bob"), UserId("cem")


def group(*members: UserId, name: str | None = "Team") -> ChatDraft:
    return ChatDraft(ChatType.GROUP, name, members)


def direct(*members: UserId, name: str | None = None) -> ChatDraft:
    return ChatDraft(ChatType.DIRECT, name, members)


class TestRoles:
    @pytest.mark.parametrize(
        ("role", "removable"),
        [(Role.OWNER, {Role.ADMIN, Role.MEMBER}), (Role.ADMIN, {Role.MEMBER}), (Role.MEMBER, set())],
    )
    def test_which_roles_each_may_remove(self, role: Role, removable: set[Role]) -> None:
        assert {other for other in Role if role.may_remove(other)} == removable

    def test_which_roles_may_manage(self) -> None:
        assert [role for role in Role if role.may_manage] == [Role.OWNER, Role.ADMIN]


class TestDrafts:
    def test_the_creator_is_a_member_anyway(self) -> None:
        assert group(BOB, ADA, CEM).others(ADA) == [BOB, CEM]
        assert group().others(ADA) == []
        assert direct(ADA, BOB).others(ADA) == [BOB]

    @pytest.mark.parametrize(
        ("draft", "fields"),
        [
            (group(name=None), {"name"}),
            (direct(BOB, name="Us"), {"name"}),
            (direct(), {"members"}),
            (direct(ADA), {"members"}),
            (direct(BOB, CEM), {"members"}),
            (group(BOB, CEM, BOB, CEM), {"members.2", "members.3"}),
            (direct(BOB, BOB), {"members.1"}),
            (group(ADA, ADA, name=None), {"members.1", "name"}),
        ],
    )
    def test_an_invalid_draft_is_refused_field_by_field(self, draft: ChatDraft, fields: set[str]) -> None:
        with pytest.raises(Invalid) as refusal:
            draft.others(ADA)
        assert refusal.value.fields.keys() == fields

    def test_the_limit_counts_the_creator(self) -> None:
        others = tuple(UserId(f"u{number}") for number in range(MAX_MEMBERS))
        assert len(group(*others[:-1]).others(ADA)) == MAX_MEMBERS - 1
        assert len(group(*others[:-1], ADA).others(ADA)) == MAX_MEMBERS - 1
        with pytest.raises(Invalid):
            group(*others).others(ADA)
