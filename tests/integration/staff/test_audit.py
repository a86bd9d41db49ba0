"""Torn and contradicting items are found, and repaired where what is stored leaves no doubt."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from accounts.domain import User
from accounts.models import UserModel
from chats.models import ChatModel, CounterModel, MembershipModel
from chats.stores.chats import direct_claim_id
from delivery.models import DeliveryStateModel
from foundation.kernel.ids import ChatId
from foundation.stores.dynamodb import Database
from messaging.domain import Action, Draft, Kind, Message
from messaging.models import IdempotencyKeyModel, MessageModel
from staff.findings import Report
from staff.services.audit.auditor import AuditScope
from tests.integration.staff.conftest import Manage, tables
from tests.integration.staff.deployment import Deployment

LONG_AGO = "2020-01-01T00:00:00.000Z"


@dataclass(frozen=True)
class Scene:
    """Two people with a direct chat of three messages."""

    deployment: Deployment
    ann: User
    bob: User
    chat_id: ChatId
    messages: tuple[Message, ...]

    def audit(self, *, repair: bool = False) -> Report:
        scope = AuditScope(chat_ids=[self.chat_id], user_ids=[self.ann.user_id, self.bob.user_id])
        return self.deployment.recovery.run(self.deployment.recovery.auditor.run(scope, repair=repair))

    @property
    def claim_id(self) -> str:
        return direct_claim_id(self.ann.user_id, self.bob.user_id)


@pytest.fixture
def scene(deployment: Deployment) -> Scene:
    ann, bob = deployment.person(), deployment.person()
    chat_id = deployment.direct(ann.user_id, bob.user_id)
    messages = tuple(deployment.send(chat_id, ann.user_id) for _ in range(3))
    return Scene(deployment, ann, bob, chat_id, messages)


def found(report: Report) -> list[str]:
    return [finding.kind for finding in report.findings]


Damage = Callable[[Scene], None]


def lower_counter(scene: Scene) -> None:
    scene.deployment.change(CounterModel, (scene.chat_id,), sequence_counter=2)


def drop_counter(scene: Scene) -> None:
    scene.deployment.drop(CounterModel, scene.chat_id)


def drop_key(scene: Scene) -> None:
    scene.deployment.drop(IdempotencyKeyModel, scene.chat_id, scene.messages[1].client_message_id)


def misdirect_key(scene: Scene) -> None:
    place = (scene.chat_id, scene.messages[1].client_message_id)
    scene.deployment.change(IdempotencyKeyModel, place, sequence=3)


def invent_key(scene: Scene) -> None:
    item = {"message_id": "msg_nowhere", "sequence": 2, "created_at": LONG_AGO, "ttl": 2**33}
    scene.deployment.put(IdempotencyKeyModel, {"chat_id": scene.chat_id, "client_message_id": "never", **item})


def drop_direct_claim(scene: Scene) -> None:
    scene.deployment.drop(ChatModel, scene.claim_id)


def drop_phone_claim(scene: Scene) -> None:
    scene.deployment.drop(UserModel, f"phone#{scene.ann.phone_number}")


def overshoot_mark(scene: Scene) -> None:
    item = {"last_acked_sequence": 99, "updated_at": LONG_AGO}
    scene.deployment.put(DeliveryStateModel, {"user_id": scene.bob.user_id, "chat_id": scene.chat_id, **item})


def overshoot_read_mark(scene: Scene) -> None:
    item = {"last_read_sequence": 4, "updated_at": LONG_AGO}
    scene.deployment.put(DeliveryStateModel, {"user_id": scene.ann.user_id, "chat_id": scene.chat_id, **item})


def leave_membership(scene: Scene) -> None:
    key = {"chat_id": scene.deployment.ids.chat(), "user_id": scene.ann.user_id}
    scene.deployment.put(MembershipModel, {**key, "role": "member", "joined_at": LONG_AGO})


def lose_message(scene: Scene) -> None:
    scene.deployment.drop(MessageModel, scene.chat_id, 2)


def tear_message(scene: Scene) -> None:
    scene.deployment.change(MessageModel, (scene.chat_id, 2), content=None)


def empty_time(scene: Scene) -> None:
    scene.deployment.change(MessageModel, (scene.chat_id, 2), created_at="")


def invent_time(scene: Scene) -> None:
    scene.deployment.change(MessageModel, (scene.chat_id, 2), created_at="yesterday")


def lose_chat(scene: Scene) -> None:
    scene.deployment.drop(ChatModel, scene.chat_id)


def lose_member(scene: Scene) -> None:
    scene.deployment.drop(MembershipModel, scene.chat_id, scene.bob.user_id)


def take_phone_claim(scene: Scene) -> None:
    scene.deployment.change(UserModel, (f"phone#{scene.ann.phone_number}",), owner_id=scene.bob.user_id)


def take_direct_claim(scene: Scene) -> None:
    scene.deployment.change(ChatModel, (scene.claim_id,), direct_chat_id=scene.deployment.ids.chat())


def lose_account(scene: Scene) -> None:
    scene.deployment.drop(UserModel, scene.bob.user_id)


def miscount_members(scene: Scene) -> None:
    scene.deployment.change(CounterModel, (scene.chat_id,), members=7)


def miscount_others(scene: Scene) -> None:
    scene.deployment.change(MessageModel, (scene.chat_id, 2), others=5)


def miscount_and_lose(scene: Scene) -> None:
    """What the lost entry was cannot be told, so neither can the right count."""
    scene.deployment.change(MessageModel, (scene.chat_id, 3), others=5)
    lose_message(scene)


def store_by_an_older_process(scene: Scene) -> None:
    """It counts messages only."""
    draft = Draft(
        scene.chat_id, scene.bob.user_id, "r", "", kind=Kind.REACTION, target=1, emoji="👍", action=Action.ADD
    )
    scene.deployment.submit(draft)
    message = scene.deployment.send(scene.chat_id, scene.ann.user_id)
    scene.deployment.change(MessageModel, (scene.chat_id, message.sequence), others=None)


def miscount_others_at_the_counter(scene: Scene) -> None:
    scene.deployment.change(CounterModel, (scene.chat_id,), others=3)


def edit(scene: Scene, target: int) -> None:
    """Turn the last message into an edit, past the committer: its target does not change."""
    scene.deployment.change(MessageModel, (scene.chat_id, 3), kind="edit", target=target, others=1)
    scene.deployment.change(CounterModel, (scene.chat_id,), others=1, last_other=3, last_message=2)


def edit_nothing(scene: Scene) -> None:
    edit(scene, target=9)


def forget_the_change(scene: Scene) -> None:
    edit(scene, target=1)


def tell_of_a_change_to_come(scene: Scene) -> None:
    scene.deployment.change(MessageModel, (scene.chat_id, 2), last_change=9)


def tell_of_a_change_of_another(scene: Scene) -> None:
    scene.deployment.change(MessageModel, (scene.chat_id, 1), last_change=3)


def delete_without_emptying(scene: Scene) -> None:
    draft = Draft(scene.chat_id, scene.ann.user_id, "d", kind=Kind.DELETION, target=2)
    scene.deployment.submit(draft)
    scene.deployment.change(MessageModel, (scene.chat_id, 2), content="still there")


REPAIRED: list[tuple[Damage, str]] = [
    (lower_counter, "counter_behind"),
    (drop_counter, "counter_missing"),
    (drop_key, "key_missing"),
    (misdirect_key, "key_wrong"),
    (invent_key, "key_wrong"),
    (drop_direct_claim, "direct_claim_missing"),
    (drop_phone_claim, "phone_claim_missing"),
    (overshoot_mark, "mark_out_of_range"),
    (overshoot_read_mark, "mark_out_of_range"),
    (leave_membership, "membership_without_chat"),
    (miscount_members, "member_count_wrong"),
    (miscount_others, "others_wrong"),
    (store_by_an_older_process, "others_wrong"),
    (miscount_others_at_the_counter, "counter_others_wrong"),
]
REPORTED: list[tuple[Damage, str]] = [
    (lose_message, "entry_missing"),
    (tear_message, "entry_torn"),
    (empty_time, "entry_torn"),
    (invent_time, "entry_torn"),
    (lose_chat, "chat_missing"),
    (lose_member, "direct_members"),
    (take_phone_claim, "phone_claim_wrong"),
    (take_direct_claim, "direct_claim_wrong"),
    (lose_account, "user_missing"),
    (miscount_and_lose, "others_wrong"),
    (edit_nothing, "target_wrong"),
    (forget_the_change, "last_change_wrong"),
    (tell_of_a_change_to_come, "last_change_wrong"),
    (tell_of_a_change_of_another, "last_change_wrong"),
    (delete_without_emptying, "deleted_not_empty"),
]


def test_what_the_services_wrote_has_no_problem(scene: Scene) -> None:
    group = scene.deployment.group(scene.ann.user_id, scene.bob.user_id)
    scene.deployment.send(group, scene.bob.user_id)
    scope = AuditScope(chat_ids=[scene.chat_id, group], user_ids=[scene.ann.user_id])
    report = scene.deployment.recovery.run(scene.deployment.recovery.auditor.run(scope))
    assert (found(report), report.checked) == ([], 3)


@pytest.mark.parametrize(("damage", "kind"), REPAIRED)
def test_what_leaves_no_doubt_is_repaired_once_and_for_all(scene: Scene, damage: Damage, kind: str) -> None:
    damage(scene)
    assert kind in found(scene.audit())
    assert not scene.audit(repair=True).left
    assert found(scene.audit()) == []


@pytest.mark.parametrize(("damage", "kind"), REPORTED)
def test_what_was_lost_is_reported_and_left_to_a_person(scene: Scene, damage: Damage, kind: str) -> None:
    damage(scene)
    assert kind in found(scene.audit())
    report = scene.audit(repair=True)
    assert kind in [finding.kind for finding in report.findings if not finding.repaired]
    assert kind in found(scene.audit())


def test_the_kinds_of_the_log_have_no_problem(scene: Scene) -> None:
    """A reaction, an edit and a deletion by the committer."""
    for draft in (
        Draft(scene.chat_id, scene.bob.user_id, "r-1", "", kind=Kind.REACTION, target=1, emoji="👍", action=Action.ADD),
        Draft(scene.chat_id, scene.ann.user_id, "e-1", "better", kind=Kind.EDIT, target=1),
        Draft(scene.chat_id, scene.ann.user_id, "d-1", "", kind=Kind.DELETION, target=2),
    ):
        scene.deployment.submit(draft)
    assert found(scene.audit()) == []
    drop_counter(scene)
    assert not scene.audit(repair=True).left
    assert found(scene.audit()) == []


def test_a_message_can_be_sent_again_after_the_repair(scene: Scene) -> None:
    lower_counter(scene)
    scene.audit(repair=True)
    assert scene.deployment.send(scene.chat_id, scene.bob.user_id).sequence == 4


@pytest.mark.parametrize("damage", [lower_counter, drop_counter])
def test_marks_stay_where_the_counter_was_lost(scene: Scene, damage: Damage) -> None:
    item = {"last_read_sequence": 3, "updated_at": LONG_AGO}
    scene.deployment.put(DeliveryStateModel, {"user_id": scene.ann.user_id, "chat_id": scene.chat_id, **item})
    damage(scene)
    repaired = scene.audit(repair=True)
    assert not repaired.left
    assert "mark_out_of_range" not in found(repaired)


def test_nobody_loses_a_chat_whose_counter_is_lost(scene: Scene) -> None:
    drop_counter(scene)
    scene.deployment.change(MembershipModel, (scene.chat_id, scene.ann.user_id), joined_at=LONG_AGO)
    scope = AuditScope(user_ids=[scene.ann.user_id])
    assert found(scene.deployment.recovery.run(scene.deployment.recovery.auditor.run(scope, repair=True))) == []


def test_memberships_of_a_group_that_is_being_created_are_left_alone(scene: Scene) -> None:
    now = scene.messages[0].created_at
    key = {"chat_id": scene.deployment.ids.chat(), "user_id": scene.ann.user_id}
    scene.deployment.put(MembershipModel, {**key, "role": "member", "joined_at": now})
    assert found(scene.audit()) == []


def test_a_group_without_an_owner_is_reported(scene: Scene) -> None:
    group = scene.deployment.group(scene.ann.user_id, scene.bob.user_id)
    scene.deployment.change(MembershipModel, (group, scene.ann.user_id), role="member")
    scope = AuditScope(chat_ids=[group])
    assert found(scene.deployment.recovery.run(scene.deployment.recovery.auditor.run(scope))) == ["owner_wrong"]


class TestErasedPeople:
    def test_their_chats_have_no_problem(self, scene: Scene) -> None:
        """A direct chat keeps the other; a group that holds nobody else is left empty."""
        group = scene.deployment.group(scene.ann.user_id)
        for chat_id in (scene.chat_id, group):
            scene.deployment.chats.records.end_membership(chat_id, scene.ann.user_id)
        scope = AuditScope(chat_ids=[scene.chat_id, group])
        assert found(scene.deployment.recovery.run(scene.deployment.recovery.auditor.run(scope))) == []

    def test_both_may_be_gone_from_a_direct_chat(self, scene: Scene) -> None:
        for person in (scene.ann, scene.bob):
            scene.deployment.chats.records.end_membership(scene.chat_id, person.user_id)
        assert found(scene.audit()) == []

    def test_ending_a_membership_again_counts_it_once(self, scene: Scene) -> None:
        for _ in range(2):
            scene.deployment.chats.records.end_membership(scene.chat_id, scene.ann.user_id)
        assert found(scene.audit()) == []

    def test_a_chat_without_a_count_of_members_loses_one_too(self, scene: Scene) -> None:
        scene.deployment.change(CounterModel, (scene.chat_id,), members=None)
        scene.deployment.chats.records.end_membership(scene.chat_id, scene.ann.user_id)
        left = scene.deployment.chats.records.list_members(scene.chat_id, limit=5).memberships
        assert [member.user_id for member in left] == [scene.bob.user_id]
        assert found(scene.audit()) == []

    def test_a_count_of_before_the_count_moved_with_them_is_repaired(self, scene: Scene) -> None:
        scene.deployment.chats.records.end_membership(scene.chat_id, scene.ann.user_id)
        scene.deployment.change(CounterModel, (scene.chat_id,), members=2)
        assert found(scene.audit()) == ["member_count_wrong"]
        assert not scene.audit(repair=True).left
        assert found(scene.audit()) == []


class TestCommand:
    @pytest.fixture
    def database(self, dynamodb_url: str) -> Iterator[Database]:
        with tables(dynamodb_url, "staff_audit_") as database:
            yield database

    def test_all_looks_at_a_chat_without_a_counter_once(self, scene: Scene, manage: Manage) -> None:
        drop_counter(scene)
        looked = json.loads(manage("audit", "--all", "--json").stdout)
        kinds = [each["kind"] for each in looked["findings"] if each["chat_id"] == scene.chat_id]
        assert kinds == ["counter_missing"]
        scene.audit(repair=True)

    def test_all_finds_and_repairs_what_nobody_named(self, scene: Scene, manage: Manage) -> None:
        for damage in (lower_counter, drop_direct_claim, leave_membership, overshoot_mark):
            damage(scene)
        scene.deployment.put(ChatModel, {"chat_id": "direct#user_x#user_y", "direct_chat_id": "chat_nowhere"})
        scene.deployment.put(UserModel, {"user_id": "phone#+15550001111", "owner_id": "user_nowhere"})
        looked = manage("audit", "--all", "--json")
        assert looked.returncode == 1, looked.stderr
        kinds = {finding["kind"] for finding in json.loads(looked.stdout)["findings"]}
        assert kinds == {
            "counter_behind",
            "direct_claim_missing",
            "membership_without_chat",
            "mark_out_of_range",
            "direct_claim_dangling",
            "phone_claim_dangling",
        }
        repaired = manage("audit", "--all", "--repair", "--reason", "a test", "--as", "drill")
        assert repaired.returncode == 0, repaired.stdout + repaired.stderr
        assert "offline scan" in repaired.stdout
        again = manage("audit", "--all")
        assert again.returncode == 0, again.stdout
        assert "Nothing found" in again.stdout

    def test_a_chat_that_does_not_exist_is_found_and_a_missing_scope_is_refused(self, manage: Manage) -> None:
        assert manage("audit", "--chat", "chat_nowhere").returncode == 1
        assert manage("audit").returncode == 2
