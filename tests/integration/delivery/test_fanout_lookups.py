"""What the fanout looks up in Redis: who is in a chat, and where they are connected."""

import redis

from delivery.fanout.members import AT_HAND, CHATS_AT_HAND, MemberCache
from delivery.stores.connections import Routes


class Authority:
    """The members of every chat, and how often it was asked."""

    def __init__(self, *members: str) -> None:
        self.members = set(members)
        self.asked = 0

    def __call__(self, chat_id: str) -> set[str]:
        self.asked += 1
        return set(self.members)


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class TestMembers:
    def test_a_busy_chat_is_looked_up_once_in_two_seconds(self, redis_client: redis.Redis) -> None:
        authority, time = Authority("ann"), Time()
        cache = MemberCache(redis_client, list_members=authority, monotonic=time)
        assert cache.members_of(["chat"]) == {"chat": {"ann"}}
        redis_client.sadd("chat_members:chat", "bob")
        time.now += AT_HAND - 0.1
        assert cache.members_of(["chat"]) == {"chat": {"ann"}}
        time.now += 0.2
        assert cache.members_of(["chat"]) == {"chat": {"ann", "bob"}}
        assert authority.asked == 1

    def test_a_change_is_seen_at_once_whatever_was_at_hand(self, redis_client: redis.Redis) -> None:
        authority = Authority("ann", "bob")
        cache = MemberCache(redis_client, list_members=authority, monotonic=Time())
        cache.members_of(["chat"])
        authority.members.discard("bob")
        cache.invalidate(["chat"])
        assert cache.members_of(["chat"]) == {"chat": {"ann"}}

    def test_no_more_chats_are_at_hand_than_there_is_room_for(self, redis_client: redis.Redis) -> None:
        cache = MemberCache(redis_client, list_members=Authority("ann"), monotonic=Time())
        for start in range(0, CHATS_AT_HAND + 500, 500):
            cache.members_of(f"chat{number}" for number in range(start, start + 500))
        assert len(cache._at_hand) == CHATS_AT_HAND


class TestRoutes:
    def test_each_group_gets_the_connections_of_all_its_users(self, redis_client: redis.Redis) -> None:
        redis_client.sadd("user_connections:ann", "g1.phone", "g2.laptop")
        redis_client.sadd("user_connections:bob", "g1.bob")
        both, one, nobody = Routes(redis_client).connections_of([["ann", "bob"], ["bob"], ["eve"]])
        assert (set(both), one, nobody) == ({"g1.phone", "g2.laptop", "g1.bob"}, ["g1.bob"], [])

    def test_a_gateway_that_is_gone_is_forgotten_and_no_other(self, redis_client: redis.Redis) -> None:
        redis_client.sadd("user_connections:ann", "gone.phone", "here.laptop")
        redis_client.sadd("user_connections:bob", "gone.bob")
        Routes(redis_client).forget("gone", ["ann", "bob"])
        assert redis_client.smembers("user_connections:ann") == {b"here.laptop"}
        assert not redis_client.exists("user_connections:bob")

    def test_one_that_is_still_registered_is_left_alone(self, redis_client: redis.Redis) -> None:
        redis_client.sadd("gateway_connections:here", "here.phone")
        redis_client.sadd("user_connections:ann", "here.phone")
        Routes(redis_client).forget("here", ["ann"])
        assert redis_client.smembers("user_connections:ann") == {b"here.phone"}
