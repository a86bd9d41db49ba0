"""The watcher, check by check: what a crash has kept from Kafka is published, and nothing else."""

import asyncio
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from prometheus_client import REGISTRY
from redis import Redis

from chats.domain import Role
from chats.models import ChatModel, CounterModel
from deploy.aws.policies import ACTIONS
from foundation.kernel.events import (
    CHATS_CREATED,
    MEMBERSHIPS_CHANGED,
    MESSAGES_PERSISTED,
    REPUBLISHED_HEADER,
    Event,
)
from foundation.kernel.ids import ChatId
from foundation.stores.errors import StoreUnavailable
from foundation.stores.kafka import KafkaOptions
from foundation.stores.redis.client import RedisOptions, connect_async
from messaging.domain import Draft, Kind
from messaging.models import MessageModel
from messaging.stores.recent_chats import KEY, RecentChatsWriter
from staff.services.access import WATCH_PATTERNS
from tests.doubles import SettableClock
from tests.integration.staff.deployment import Deployment, published


class Scene:
    def __init__(self, deployment: Deployment, redis_url: str, kafka_options: KafkaOptions) -> None:
        self.deployment = deployment
        self._url, self._kafka = redis_url, kafka_options
        self.ann, self.bob = deployment.person().user_id, deployment.person().user_id
        self.chat_id = deployment.direct(self.ann, self.bob)
        self.watcher = deployment.recovery.watcher

    def note(self, *chat_ids: ChatId) -> None:
        """What a `web` process does when it sends a transaction, of the scene's chat unless others are named."""

        async def write() -> None:
            client = connect_async(RedisOptions(url=self._url))
            await RecentChatsWriter(client).add(chat_ids or [self.chat_id], now=self.deployment.clock.now().timestamp())
            await client.aclose()

        asyncio.run(write())

    def published(self) -> list[tuple[int, bool]]:
        """The sequences of the chat in the log, each with whether the watcher published it."""
        records = published(MESSAGES_PERSISTED, self.chat_id, self._kafka)
        return [(Event.decode(each.value).payload["sequence"], REPUBLISHED_HEADER in each.headers) for each in records]

    def changes(self) -> list[tuple[int | None, str, bool]]:
        """The changes of members in the log: sequence, user, and whether the watcher published it."""
        records = published(MEMBERSHIPS_CHANGED, self.chat_id, self._kafka)
        logged = [(Event.decode(each.value).payload, REPUBLISHED_HEADER in each.headers) for each in records]
        return [(payload.get("sequence"), payload["user_id"], again) for payload, again in logged]

    def creations(self) -> list[bool]:
        """The creations of the chat in the log: whether the watcher published it."""
        return [REPUBLISHED_HEADER in each.headers for each in published(CHATS_CREATED, self.chat_id, self._kafka)]


@pytest.fixture
def scene(deployment: Deployment, redis_url: str, kafka_options: KafkaOptions) -> Scene:
    return Scene(deployment, redis_url, kafka_options)


def test_a_lost_event_of_a_noted_chat_is_published_once(scene: Scene) -> None:
    scene.watcher.check_once()
    scene.note()
    scene.deployment.send(scene.chat_id, scene.ann, crash=True)
    for _ in range(3):
        scene.watcher.check_once()
    assert scene.published() == [(1, True)]


def test_a_round_is_counted_when_it_is_finished_and_not_when_an_engine_fails(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = checks()
    scene.watcher.check_once()
    assert checks() == before + 1
    monkeypatch.setattr(scene.watcher, "_check", Mock(side_effect=StoreUnavailable("no answer")))
    scene.note()
    with pytest.raises(StoreUnavailable):
        scene.watcher.check_once()
    assert checks() == before + 1


def checks() -> float:
    return REGISTRY.get_sample_value("parley_watch_rounds_total") or 0


def test_it_asks_dynamodb_for_no_more_than_its_role_allows(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it meets: a lost entry, change of members and creation, and an edit."""
    asked = record_requests(scene.deployment, monkeypatch)
    scene.watcher.check_once()
    scene.chat_id = scene.deployment.group(scene.ann, crash=True)
    scene.note()
    scene.deployment.crashing_chats.members.add(scene.chat_id, scene.ann, scene.bob, Role.MEMBER)
    message = scene.deployment.send(scene.chat_id, scene.ann)
    draft = Draft(scene.chat_id, scene.ann, "edit", "hello again", kind=Kind.EDIT, target=message.sequence)
    scene.deployment.submit(draft, crash=True)
    asked.clear()
    scene.watcher.check_once()
    assert len(scene.published()) == 3
    table_name = scene.deployment.database.table_name
    allowed = {(action, table_name(each.model)) for each in WATCH_PATTERNS for action in ACTIONS[each.operation]}
    assert asked == allowed


def record_requests(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    """The operations that DynamoDB is asked for from now on, each with its table."""
    wire, asked = deployment.database.on_loop.wire, set[tuple[str, str]]()
    call = wire.call

    async def recording(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        asked.update((operation, each) for each in request.get("RequestItems") or [request.get("TableName", "")])
        return await call(operation, request)

    monkeypatch.setattr(wire, "call", recording)
    return asked


def test_what_kafka_has_taken_is_left_alone(scene: Scene) -> None:
    scene.note()
    for _ in range(3):
        scene.deployment.send(scene.chat_id, scene.ann)
        scene.watcher.check_once()
    assert scene.published() == [(1, False), (2, False), (3, False)]


def test_without_notes_the_rotation_finds_a_chat_of_the_log(scene: Scene, redis_client: Redis) -> None:
    scene.deployment.send(scene.chat_id, scene.ann)
    scene.deployment.send(scene.chat_id, scene.ann, crash=True)
    redis_client.delete(KEY)
    checks = 0
    while len(scene.published()) < 2:
        scene.watcher.check_once()
        checks += 1
        assert checks < 50
    assert scene.published() == [(1, False), (2, True)]


def test_notes_from_before_the_watcher_started_are_checked(scene: Scene) -> None:
    scene.note()
    scene.deployment.send(scene.chat_id, scene.bob, crash=True)
    scene.watcher.check_once()
    assert scene.published() == [(1, True)]


def test_a_chat_that_does_not_exist_is_no_error(scene: Scene) -> None:
    scene.chat_id = ChatId(scene.deployment.ids.chat())
    scene.note()
    scene.watcher.check_once()
    assert scene.published() == []


@pytest.mark.parametrize("made_up", ["", "yesterday"])
def test_times_that_are_none_keep_nothing_from_what_is_whole(scene: Scene, made_up: str) -> None:
    scene.note()
    for _ in range(2):
        scene.deployment.send(scene.chat_id, scene.ann, crash=True)
    scene.deployment.change(MessageModel, (scene.chat_id, 1), created_at=made_up)
    scene.deployment.change(ChatModel, (scene.chat_id,), created_at=made_up)
    scene.watcher.check_once()
    assert scene.published() == [(2, True)]


def test_a_chat_that_cannot_be_understood_is_logged_and_the_others_are_checked(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    broken = scene.deployment.group(scene.ann)
    scene.deployment.change(CounterModel, (broken,), sequence_counter="many")
    scene.note(broken, scene.chat_id)
    scene.deployment.send(scene.chat_id, scene.ann, crash=True)
    scene.watcher.check_once()
    assert scene.published() == [(1, True)]
    assert broken in caplog.text


def test_a_lost_change_of_members_is_published_once(scene: Scene) -> None:
    scene.chat_id = scene.deployment.group(scene.ann)
    scene.watcher.check_once()
    scene.note()
    scene.deployment.half_crashing_chats.members.add(scene.chat_id, scene.ann, scene.bob, Role.MEMBER)
    scene.deployment.chats.members.remove(scene.chat_id, scene.bob, scene.bob)
    for _ in range(3):
        scene.watcher.check_once()
    assert scene.changes() == [(2, scene.bob, False), (1, scene.bob, True)]
    assert scene.published() == [(1, False), (2, False)]


def test_a_change_is_published_with_the_notice_that_was_lost_too(scene: Scene) -> None:
    scene.chat_id = scene.deployment.group(scene.ann)
    scene.note()
    scene.deployment.crashing_chats.members.add(scene.chat_id, scene.ann, scene.bob, Role.MEMBER)
    for _ in range(2):
        scene.watcher.check_once()
    assert (scene.published(), scene.changes()) == ([(1, True)], [(1, scene.bob, True)])


def test_a_change_that_an_earlier_release_has_told_is_left_alone(scene: Scene) -> None:
    scene.chat_id = scene.deployment.group(scene.ann)
    scene.note()
    scene.deployment.half_crashing_chats.members.add(scene.chat_id, scene.ann, scene.bob, Role.MEMBER)
    scene.deployment.publish_event("MembershipChanged", scene.chat_id, user_id=scene.bob, change_type="added")
    scene.watcher.check_once()
    assert scene.changes() == [(None, scene.bob, False)]


def test_a_lost_creation_of_a_noted_chat_is_published_once(scene: Scene) -> None:
    scene.watcher.check_once()
    scene.chat_id = scene.deployment.group(scene.ann, scene.bob, crash=True)
    scene.note()
    for _ in range(3):
        scene.watcher.check_once()
    assert scene.creations() == [True]


def test_what_is_younger_than_ten_seconds_is_looked_at_again(scene: Scene) -> None:
    scene.chat_id = scene.deployment.group(scene.ann, crash=True)
    scene.deployment.half_crashing_chats.members.add(scene.chat_id, scene.ann, scene.bob, Role.MEMBER)
    scene.note()
    clock = SettableClock(scene.deployment.clock.now())
    watcher = scene.deployment.recovery_at(clock, grace=timedelta(seconds=10)).watcher
    watcher.check_once()
    assert (scene.creations(), scene.changes()) == ([], [])
    clock.advance(seconds=11)
    watcher.check_once()
    assert (scene.creations(), scene.changes()) == ([True], [(1, scene.bob, True)])
