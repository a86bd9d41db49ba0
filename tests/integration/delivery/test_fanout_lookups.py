"""What the fanout looks up in Redis: the members of a chat, and their connections."""

import redis

from delivery.stores.connections import LOCAL_MEMBERS_CAPACITY, LOCAL_MEMBERS_TTL, MemberCache, Routes


class FakeMemberships:
    """The members of every chat, and how often they were read."""

    def __init__(self, *members: str) -> None:
        self.members = set(members)
        self.reads = 0

    def __call__(self, chat_id: str) -> set[str]:
        self.reads += 1
        return set(self.members)


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
