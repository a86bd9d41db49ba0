"""What the fanout looks up in Redis: the members of a chat, and their connections."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future

import pytest
import redis

from delivery.stores.connections import LOCAL_MEMBERS_CAPACITY, LOCAL_MEMBERS_TTL, MemberCache, Routes
from foundation.kernel.ids import UserId
from foundation.stores.errors import StoreUnavailable


class FakeMemberships:
    """The members of every chat, and how often they were read. Reads of `slow` chats end when the test says so."""

    def __init__(self, *members: str, slow: Sequence[str] = ()) -> None:
        self.members = set(members)
        self.reads = 0
        self.slow: dict[str, Future[Sequence[UserId]]] = {chat: Future() for chat in slow}

    def __call__(self, chat_id: str) -> "Future[Sequence[UserId]]":
        self.reads += 1
        if chat_id in self.slow:
            return self.slow[chat_id]
        done: Future[Sequence[UserId]] = Future()
        done.set_result([UserId(member) for member in self.members])
        return done


class FakeMonotonic:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class TestMembers:
    def test_a_busy_chat_is_looked_up_once_in_two_seconds(self, redis_client: redis.Redis) -> None:
        memberships, monotonic = FakeMemberships("ann"), FakeMonotonic()
        cache = MemberCache(redis_client, list_members=memberships, monotonic=monotonic)
        assert cache.members_of(["chat"]) == {"chat": {"ann"}}
        redis_client.sadd("chat_members:chat", "bob")
        monotonic.now += LOCAL_MEMBERS_TTL - 0.1
        assert cache.members_of(["chat"]) == {"chat": {"ann"}}
        monotonic.now += 0.2
        assert cache.members_of(["chat"]) == {"chat": {"ann", "bob"}}
        assert memberships.reads == 1

    def test_invalidating_a_chat_drops_its_local_copy_too(self, redis_client: redis.Redis) -> None:
        memberships = FakeMemberships("ann", "bob")
        cache = MemberCache(redis_client, list_members=memberships, monotonic=FakeMonotonic())
        cache.members_of(["chat"])
        memberships.members.discard("bob")
        cache.invalidate(["chat"])
        assert cache.members_of(["chat"]) == {"chat": {"ann"}}

    def test_the_local_copies_are_bounded(self, redis_client: redis.Redis) -> None:
        cache = MemberCache(redis_client, list_members=FakeMemberships("ann"), monotonic=FakeMonotonic())
        for start in range(0, LOCAL_MEMBERS_CAPACITY + 500, 500):
            cache.members_of(f"chat{number}" for number in range(start, start + 500))
        assert len(cache._local) == LOCAL_MEMBERS_CAPACITY


class TestColdChats:
    def test_a_slow_chat_is_waited_for_once_and_the_others_are_known(self, redis_client: redis.Redis) -> None:
        memberships = FakeMemberships("ann", slow=["slow"])
        cache = MemberCache(redis_client, list_members=memberships, monotonic=FakeMonotonic(), read_timeout=0.01)
        with pytest.raises(StoreUnavailable):
            cache.members_of(["quick", "slow"])
        assert cache.members_of(["quick"]) == {"quick": {"ann"}}
        with pytest.raises(StoreUnavailable):
            cache.members_of(["slow"])
        assert memberships.reads == 2
        memberships.slow["slow"].set_result([UserId("bob")])
        assert cache.members_of(["slow"]) == {"slow": {"bob"}}
        assert not redis_client.exists("chat_members:slow")

    def test_a_slow_read_from_before_a_change_is_not_used(self, redis_client: redis.Redis) -> None:
        memberships = FakeMemberships("ann", slow=["chat"])
        cache = MemberCache(redis_client, list_members=memberships, monotonic=FakeMonotonic(), read_timeout=0.01)
        with pytest.raises(StoreUnavailable):
            cache.members_of(["chat"])
        memberships.slow.pop("chat").set_result([UserId("bob"), UserId("ann")])
        cache.invalidate(["chat"])
        assert cache.members_of(["chat"]) == {"chat": {"ann"}}

    def test_a_read_that_fails_is_an_error_and_is_tried_again(self, redis_client: redis.Redis) -> None:
        memberships = FakeMemberships("ann", slow=["chat"])
        memberships.slow["chat"].set_exception(StoreUnavailable("throttled"))
        cache = MemberCache(redis_client, list_members=memberships, monotonic=FakeMonotonic())
        with pytest.raises(StoreUnavailable, match="throttled"):
            cache.members_of(["chat"])
        del memberships.slow["chat"]
        assert cache.members_of(["chat"]) == {"chat": {"ann"}}


class TestErrors:
    """Redis answers, with errors."""

    @pytest.fixture
    def full(self, redis_client: redis.Redis) -> Iterator[redis.Redis]:
        redis_client.config_set("maxmemory", "1mb")
        yield redis_client
        redis_client.config_set("maxmemory", "0")

    @pytest.fixture
    def read_only(self, redis_client: redis.Redis) -> Iterator[redis.Redis]:
        redis_client.replicaof("127.0.0.1", "1")
        yield redis_client
        redis_client.replicaof("NO", "ONE")

    def test_members_that_cannot_be_cached_are_still_known(self, full: redis.Redis) -> None:
        cache = MemberCache(full, list_members=FakeMemberships("ann"))
        assert cache.members_of(["chat"]) == {"chat": {"ann"}}
        assert not full.exists("chat_members:chat")

    def test_routes_are_not_looked_up_at_a_replica_which_would_publish_to_nobody(self, read_only: redis.Redis) -> None:
        with pytest.raises(StoreUnavailable):
            Routes(read_only).connections_of([["ann"]])
        with pytest.raises(StoreUnavailable):
            MemberCache(read_only, list_members=FakeMemberships("ann")).invalidate(["chat"])


class TestRoutes:
    def test_each_group_gets_the_connections_of_all_its_users(self, redis_client: redis.Redis) -> None:
        redis_client.sadd("user_connections:ann", "g1.phone", "g2.laptop")
        redis_client.sadd("user_connections:bob", "g1.bob")
        both, one, nobody = Routes(redis_client).connections_of([["ann", "bob"], ["bob"], ["eve"]])
        assert (set(both), one, nobody) == ({"g1.phone", "g2.laptop", "g1.bob"}, ["g1.bob"], [])

    def test_only_the_connections_of_a_dead_gateway_are_removed(self, redis_client: redis.Redis) -> None:
        redis_client.sadd("user_connections:ann", "gone.phone", "here.laptop")
        redis_client.sadd("user_connections:bob", "gone.bob")
        Routes(redis_client).forget("gone", ["ann", "bob"])
        assert redis_client.smembers("user_connections:ann") == {b"here.laptop"}
        assert not redis_client.exists("user_connections:bob")

    def test_a_gateway_that_is_still_registered_is_left_alone(self, redis_client: redis.Redis) -> None:
        redis_client.sadd("gateway_connections:here", "here.phone")
        redis_client.sadd("user_connections:ann", "here.phone")
        Routes(redis_client).forget("here", ["ann"])
        assert redis_client.smembers("user_connections:ann") == {b"here.phone"}
