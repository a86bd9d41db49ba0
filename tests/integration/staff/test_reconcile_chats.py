"""Lost and orphaned events of chats and of their members: found, and repaired where that is right."""

from typing import Any

import pytest

from chats.domain import Role
from foundation.kernel.events import CHATS_CREATED, MEMBERSHIPS_CHANGED, MESSAGES_PERSISTED, REPUBLISHED_HEADER, Event
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.kafka import KafkaOptions
from staff.findings import Report
from staff.services.reconcile import Scope
from tests.integration.staff.deployment import Deployment, published

Found = tuple[str, str | None, int | None, str | None]


class Scene:
    """A group of Ann and Bob, and Cem, who is not in it."""

    def __init__(self, deployment: Deployment, kafka: KafkaOptions) -> None:
        self.deployment, self._kafka = deployment, kafka
        self.ann, self.bob, self.cem = [deployment.person().user_id for _ in range(3)]

    def reconcile(self, *chat_ids: ChatId, repair: bool = False) -> Report:
        recovery = self.deployment.recovery
        return recovery.run(recovery.reconciler.run(Scope(chat_ids=chat_ids), repair=repair))

    def found(self, *chat_ids: ChatId) -> list[Found]:
        return [(each.kind, each.topic, each.sequence, each.user_id) for each in self.reconcile(*chat_ids).findings]

    def payloads(self, topic: str, chat_id: ChatId) -> list[tuple[dict[str, Any], bool]]:
        """What the events of a chat tell, each with whether it was published again."""
        records = published(topic, chat_id, self._kafka)
        return [(dict(Event.decode(each.value).payload), REPUBLISHED_HEADER in each.headers) for each in records]

    def changed(self, chat_id: ChatId, user_id: UserId, change: str, **payload: Any) -> None:
        """Publish a change of a membership, whatever DynamoDB holds."""
        fields = {"change_type": change, "role": "member", "changed_by": self.ann, **payload}
        self.deployment.publish_event("MembershipChanged", chat_id, user_id=user_id, **fields)


@pytest.fixture
def scene(deployment: Deployment, kafka_options: KafkaOptions) -> Scene:
    return Scene(deployment, kafka_options)


class TestChangesOfMembers:
    def test_changes_whose_events_are_all_there_have_no_finding(self, scene: Scene) -> None:
        chat_id, members = scene.deployment.group(scene.ann, scene.bob), scene.deployment.chats.members
        members.add(chat_id, scene.ann, scene.cem, Role.MEMBER)
        members.change_role(chat_id, scene.ann, scene.bob, Role.OWNER)
        members.remove(chat_id, scene.cem, scene.cem)
        assert scene.found(chat_id) == []

    def test_lost_ones_are_published_in_order_with_what_their_notices_tell(self, scene: Scene) -> None:
        chat_id, members = scene.deployment.group(scene.ann), scene.deployment.half_crashing_chats.members
        members.add(chat_id, scene.ann, scene.bob, Role.MEMBER)
        members.change_role(chat_id, scene.ann, scene.bob, Role.ADMIN)
        members.remove(chat_id, scene.bob, scene.bob)
        scene.deployment.chats.members.add(chat_id, scene.ann, scene.cem, Role.MEMBER)
        lost = [("missing", MEMBERSHIPS_CHANGED, sequence, scene.bob) for sequence in (1, 2, 3)]
        assert scene.found(chat_id) == lost
        assert not scene.reconcile(chat_id, repair=True).left
        logged, *again = scene.payloads(MEMBERSHIPS_CHANGED, chat_id)
        assert (logged[0]["user_id"], logged[1]) == (scene.cem, False)
        names = ("sequence", "change_type", "role", "user_id", "changed_by")
        assert [[payload[name] for name in names] for payload, _ in again] == [
            [1, "added", "member", scene.bob, scene.ann],
            [2, "role_changed", "admin", scene.bob, scene.ann],
            [3, "removed", "admin", scene.bob, scene.bob],
        ]
        assert all(republished for _, republished in again)
        assert scene.found(chat_id) == []

    def test_a_notice_is_lost_with_its_change(self, scene: Scene) -> None:
        chat_id = scene.deployment.group(scene.ann)
        scene.deployment.crashing_chats.members.add(chat_id, scene.ann, scene.bob, Role.MEMBER)
        assert scene.found(chat_id) == [
            ("missing", MESSAGES_PERSISTED, 1, None),
            ("missing", MEMBERSHIPS_CHANGED, 1, scene.bob),
        ]
        assert not scene.reconcile(chat_id, repair=True).left
        assert scene.found(chat_id) == []

    def test_of_two_changes_of_a_notice_one_may_be_lost(self, scene: Scene) -> None:
        chat_id = scene.deployment.group(scene.ann, scene.bob)
        scene.deployment.half_crashing_chats.members.change_role(chat_id, scene.ann, scene.bob, Role.OWNER)
        scene.changed(chat_id, scene.bob, "role_changed", role="owner", sequence=1)
        assert scene.found(chat_id) == [("missing", MEMBERSHIPS_CHANGED, 1, scene.ann)]
        scene.reconcile(chat_id, repair=True)
        last, _ = scene.payloads(MEMBERSHIPS_CHANGED, chat_id)[-1]
        assert (last["user_id"], last["role"]) == (scene.ann, "admin")

    def test_events_of_an_earlier_release_have_no_sequence_and_count(self, scene: Scene) -> None:
        chat_id, members = scene.deployment.group(scene.ann), scene.deployment.half_crashing_chats.members
        members.add(chat_id, scene.ann, scene.bob, Role.MEMBER)
        members.add(chat_id, scene.ann, scene.cem, Role.MEMBER)
        members.remove(chat_id, scene.ann, scene.bob)
        scene.changed(chat_id, scene.bob, "added")
        scene.changed(chat_id, scene.bob, "removed")
        assert scene.found(chat_id) == [("missing", MEMBERSHIPS_CHANGED, 2, scene.cem)]
        scene.changed(chat_id, scene.cem, "added")
        assert scene.found(chat_id) == []

    def test_an_event_without_a_notice_is_reported_and_never_repaired(self, scene: Scene) -> None:
        chat_id = scene.deployment.group(scene.ann, scene.bob)
        scene.deployment.send(chat_id, scene.ann)
        scene.changed(chat_id, scene.bob, "removed", sequence=1)
        scene.changed(chat_id, scene.bob, "removed", sequence=9)
        report = scene.reconcile(chat_id, repair=True)
        assert [(each.kind, each.topic, each.sequence, each.repaired) for each in report.findings] == [
            ("orphaned", MEMBERSHIPS_CHANGED, 1, False),
            ("orphaned", MEMBERSHIPS_CHANGED, 9, False),
        ]


class TestCreations:
    def test_a_lost_one_is_published_with_the_chat_as_it_is_now(self, scene: Scene) -> None:
        chat_id = scene.deployment.group(scene.bob, scene.ann, scene.cem, crash=True)
        dan = scene.deployment.person().user_id
        scene.deployment.chats.members.remove(chat_id, scene.cem, scene.cem)
        scene.deployment.chats.members.add(chat_id, scene.bob, dan, Role.MEMBER)
        scene.deployment.chats.details.rename(chat_id, scene.bob, "Renamed")
        assert scene.found(chat_id) == [("missing", CHATS_CREATED, None, None)]
        assert not scene.reconcile(chat_id, repair=True).left
        assert scene.payloads(CHATS_CREATED, chat_id) == [
            (
                {
                    "chat_id": chat_id,
                    "chat_type": "group",
                    "name": "Renamed",
                    "created_by": scene.bob,
                    "initial_members": [scene.bob, scene.ann],
                },
                True,
            )
        ]
        assert scene.found(chat_id) == []

    def test_a_chat_that_only_its_lost_event_told_of_is_found_by_all(self, scene: Scene) -> None:
        chat_id = scene.deployment.direct(scene.ann, scene.bob, crash=True)
        recovery = scene.deployment.recovery
        report = recovery.run(recovery.reconciler.run(Scope(everything=True)))
        assert (chat_id, "missing", CHATS_CREATED) in [
            (each.chat_id, each.kind, each.topic) for each in report.findings
        ]

    def test_since_finds_a_chat_that_has_only_another_event(self, scene: Scene) -> None:
        before = scene.deployment.clock.now()
        chat_id = scene.deployment.direct(scene.ann, scene.bob, crash=True)
        scene.deployment.send(chat_id, scene.ann)
        recovery = scene.deployment.recovery
        report = recovery.run(recovery.reconciler.run(Scope(since=before)))
        assert (chat_id, CHATS_CREATED) in [(each.chat_id, each.topic) for each in report.findings]

    def test_an_event_without_a_chat_is_reported_and_never_repaired(self, scene: Scene) -> None:
        chat_id = ChatId(scene.deployment.ids.chat())
        scene.deployment.publish_event("ChatCreated", chat_id, initial_members=[scene.ann])
        report = scene.reconcile(chat_id, repair=True)
        assert [(each.kind, each.topic, each.repaired) for each in report.findings] == [
            ("chat_missing", None, False),
            ("orphaned", CHATS_CREATED, False),
        ]
