"""The audience of live frames, and presence, on a real Redis."""

from collections.abc import AsyncIterator, Sequence

import pytest
import redis
import redis.asyncio

from delivery.stores.audience import MAX_LIVE_MEMBERS, Audience
from delivery.stores.connections import ConnectionRegistry, Registration
from delivery.stores.presence import PresenceStore
from foundation.kernel.ids import ChatId, ConnectionId, SessionId, UserId
from foundation.stores.errors import StoreUnavailable, Throttled
from foundation.stores.redis.client import RedisOptions, connect_async

ADA, BOB = UserId("ada"), UserId("bob")
SMALL, LARGE = ChatId("small"), ChatId("large")


@pytest.fixture
async def client(redis_url: str, redis_client: "redis.Redis") -> AsyncIterator["redis.asyncio.Redis"]:
    client = connect_async(RedisOptions(url=redis_url, connect_timeout=10, answer_timeout=10))
    yield client
    await client.aclose()


def registration(user_id: UserId, name: str) -> Registration:
    return Registration(ConnectionId(f"gw.{name}"), user_id, SessionId("sess"), "phone", "")


class Chats:
    """The members in DynamoDB, and how often they were read."""

    def __init__(self) -> None:
        self.members: dict[ChatId, list[UserId]] = {
            SMALL: [ADA, BOB],
            LARGE: [UserId(str(number)) for number in range(MAX_LIVE_MEMBERS + 1)],
        }
        self.reads: list[ChatId] = []
        self.failures: dict[ChatId, Exception] = {}

    async def list_members(self, chat_id: ChatId) -> Sequence[UserId]:
        self.reads.append(chat_id)
        if chat_id in self.failures:
            raise self.failures[chat_id]
        return self.members.get(chat_id, [])


class TestAudience:
    async def test_members_are_read_once_and_their_connections_found(self, client: "redis.asyncio.Redis") -> None:
        chats = Chats()
        audience = Audience(client, list_members=chats.list_members)
        registry = ConnectionRegistry(client, gateway_id="gw")
        await registry.register([registration(ADA, "1"), registration(ADA, "2"), registration(BOB, "3")])
        for _ in range(2):
            everyone, others = await audience.connections_of([(SMALL, None), (SMALL, ADA)])
            assert (sorted(everyone or []), others) == (["gw.1", "gw.2", "gw.3"], ["gw.3"])
        assert chats.reads == [SMALL]

    async def test_members_that_were_read_are_not_written_to_the_cache_of_everybody(
        self, client: "redis.asyncio.Redis"
    ) -> None:
        """The read may be older than an invalidation by the fanout."""
        chats, now = Chats(), 100.0
        audience = Audience(client, list_members=chats.list_members, monotonic=lambda: now)
        await ConnectionRegistry(client, gateway_id="gw").register([registration(BOB, "3")])
        assert await audience.connections_of([(SMALL, None)]) == [["gw.3"]]
        assert not await client.exists(f"chat_members:{SMALL}")
        chats.members[SMALL] = [ADA]
        now += 3
        assert await audience.connections_of([(SMALL, None)]) == [[]]

    async def test_a_large_chat_has_no_audience_and_is_not_asked_for_again(self, client: "redis.asyncio.Redis") -> None:
        chats, now = Chats(), 100.0
        audience = Audience(client, list_members=chats.list_members, monotonic=lambda: now)
        assert await audience.connections_of([(LARGE, None)]) == [[]]
        chats.members[LARGE] = [ADA]
        assert await audience.connections_of([(LARGE, None)]) == [[]]
        assert chats.reads == [LARGE]
        now += 301
        assert await audience.connections_of([(LARGE, None)]) == [[]]
        assert chats.reads == [LARGE, LARGE]

    async def test_a_chat_without_members_or_connections_has_none(self, client: "redis.asyncio.Redis") -> None:
        audience = Audience(client, list_members=Chats().list_members)
        assert await audience.connections_of([(ChatId("gone"), None), (SMALL, None)]) == [[], []]

    @pytest.mark.parametrize("failure", [Throttled("over capacity"), ZeroDivisionError()])
    async def test_a_chat_whose_members_cannot_be_read_costs_no_other_its_audience(
        self, client: "redis.asyncio.Redis", failure: Exception
    ) -> None:
        chats, other = Chats(), ChatId("other")
        chats.failures[other] = failure
        audience = Audience(client, list_members=chats.list_members)
        await ConnectionRegistry(client, gateway_id="gw").register([registration(BOB, "3")])
        found = await audience.connections_of([(other, None), (SMALL, None), (other, ADA), (LARGE, None)])
        assert found == [None, ["gw.3"], None, []]

    async def test_nothing_is_published_at_a_replica_whose_subscribers_are_elsewhere(
        self, client: "redis.asyncio.Redis", redis_client: "redis.Redis"
    ) -> None:
        audience = Audience(client, list_members=Chats().list_members)
        await audience.publish({"gw": b"{}"})
        redis_client.replicaof("127.0.0.1", "1")
        try:
            with pytest.raises(StoreUnavailable):
                await audience.publish({"gw": b"{}"})
        finally:
            redis_client.replicaof("NO", "ONE")
        await audience.publish({"gw": b"{}"})

    async def test_without_redis_it_says_so(self) -> None:
        away = connect_async(RedisOptions(url="redis://127.0.0.1:1/0"))
        with pytest.raises(StoreUnavailable):
            await Audience(away, list_members=Chats().list_members).connections_of([(SMALL, None)])
        await away.aclose()


class TestPresence:
    async def test_a_user_is_online_until_the_last_connection_at_any_gateway_ends(
        self, client: "redis.asyncio.Redis"
    ) -> None:
        presence = PresenceStore(client)
        one, other = (ConnectionRegistry(client, gateway_id=name) for name in ("gw", "gw2"))
        phone, laptop = registration(ADA, "phone"), registration(ADA, "laptop")
        await one.register([phone])
        await other.register([laptop])
        assert await presence.online_among([ADA, BOB]) == {ADA}
        assert 0 < await client.ttl(f"user_presence:{ADA}") <= 30
        assert await one.unregister([phone]) == set()
        assert await presence.leave([ADA]) == set()
        assert await other.unregister([laptop]) == {ADA}
        assert await presence.leave([ADA, BOB]) == {ADA, BOB}
        assert await presence.online_among([ADA]) == set()
