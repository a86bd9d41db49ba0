"""The watcher, round by round: what a crash has kept from Kafka is published, and nothing else."""

import asyncio
from datetime import timedelta

import pytest
from redis import Redis

from foundation.kernel.events import MESSAGES_PERSISTED, REPUBLISHED_HEADER, Event
from foundation.kernel.ids import ChatId
from foundation.stores.kafka import KafkaOptions, LogReader
from foundation.stores.redis.client import RedisOptions, connect_async
from messaging.stores.recent_chats import KEY, RecentChatsWriter
from tests.integration.staff.deployment import Deployment


class Scene:
    def __init__(self, deployment: Deployment, redis_url: str, kafka_options: KafkaOptions) -> None:
        self.deployment = deployment
        self._url, self._kafka = redis_url, kafka_options
        self.ann, self.bob = deployment.person().user_id, deployment.person().user_id
        self.chat_id = deployment.direct(self.ann, self.bob)
        self.watcher = deployment.recovery.watcher

    def note(self) -> None:
        """What a `web` process does when it sends a transaction."""

        async def write() -> None:
            client = connect_async(RedisOptions(url=self._url))
            await RecentChatsWriter(client).add([self.chat_id], now=self.deployment.clock.now().timestamp())
            await client.aclose()

        asyncio.run(write())

    def published(self) -> list[tuple[int, bool]]:
        """The sequences of the chat in the log, each with whether the watcher published it."""
        reader = LogReader(self._kafka)
        span = reader.span(MESSAGES_PERSISTED, self.deployment.clock.now() - timedelta(hours=1))
        records = [each for batch in reader.read(span) for each in batch if each.key == self.chat_id]
        reader.close()
        return [(Event.decode(each.value).payload["sequence"], REPUBLISHED_HEADER in each.headers) for each in records]


@pytest.fixture
def scene(deployment: Deployment, redis_url: str, kafka_options: KafkaOptions) -> Scene:
    return Scene(deployment, redis_url, kafka_options)


def test_a_lost_event_of_a_noted_chat_is_published_once(scene: Scene) -> None:
    scene.watcher.round()
    scene.note()
    scene.deployment.send(scene.chat_id, scene.ann, crash=True)
    for _ in range(3):
        scene.watcher.round()
    assert scene.published() == [(1, True)]


def test_what_kafka_has_taken_is_left_alone(scene: Scene) -> None:
    scene.note()
    for _ in range(3):
        scene.deployment.send(scene.chat_id, scene.ann)
        scene.watcher.round()
    assert scene.published() == [(1, False), (2, False), (3, False)]


def test_without_notes_the_rotation_finds_a_chat_of_the_log(scene: Scene, redis_client: Redis) -> None:
    scene.deployment.send(scene.chat_id, scene.ann)
    scene.deployment.send(scene.chat_id, scene.ann, crash=True)
    redis_client.delete(KEY)
    rounds = 0
    while len(scene.published()) < 2:
        scene.watcher.round()
        rounds += 1
        assert rounds < 50
    assert scene.published() == [(1, False), (2, True)]


def test_notes_from_before_the_watcher_started_are_checked(scene: Scene) -> None:
    scene.note()
    scene.deployment.send(scene.chat_id, scene.bob, crash=True)
    scene.watcher.round()
    assert scene.published() == [(1, True)]


def test_a_chat_that_does_not_exist_is_no_error(scene: Scene) -> None:
    scene.chat_id = ChatId(scene.deployment.ids.chat())
    scene.note()
    scene.watcher.round()
    assert scene.published() == []
