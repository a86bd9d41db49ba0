from chats.domain import CounterState
from foundation.kernel.ids import ChatId, UserId
from messaging.services.ingest import MEMBER_TTL, MembershipCache

CHAT, ANN, BOB = ChatId("chat"), UserId("ann"), UserId("bob")


class FakeMonotonic:
    moment = 100.0

    def __call__(self) -> float:
        return self.moment


class TestCounters:
    def test_an_unknown_chat_has_no_counter(self) -> None:
        assert MembershipCache(monotonic=FakeMonotonic()).find_counter(CHAT) is None

    def test_a_write_advances_the_counter(self) -> None:
        cache = MembershipCache(monotonic=FakeMonotonic())
        cache.remember_counter(CHAT, CounterState(7, departures=2))
        cache.advance(CHAT, CounterState(9, departures=2))
        assert cache.find_counter(CHAT) == CounterState(9, departures=2)

    def test_a_write_does_not_bring_back_a_chat_that_was_forgotten_meanwhile(self) -> None:
        cache = MembershipCache(monotonic=FakeMonotonic())
        cache.remember_counter(CHAT, CounterState(7))
        cache.forget(CHAT)
        cache.advance(CHAT, CounterState(8))
        assert cache.find_counter(CHAT) is None

    def test_the_chat_with_the_oldest_write_is_evicted_first(self) -> None:
        cache = MembershipCache(monotonic=FakeMonotonic(), capacity=2)
        for name in ("a", "b"):
            cache.remember_counter(ChatId(name), CounterState(0))
        cache.advance(ChatId("a"), CounterState(1))
        cache.remember_counter(ChatId("c"), CounterState(0))
        assert [cache.find_counter(ChatId(name)) for name in ("a", "b", "c")] == [
            CounterState(1),
            None,
            CounterState(0),
        ]


class TestMembers:
    def test_only_the_member_who_was_read_is_fresh(self) -> None:
        cache = MembershipCache(monotonic=FakeMonotonic())
        cache.remember_counter(CHAT, CounterState(0))
        cache.remember_member(CHAT, ANN, departures=0)
        assert cache.is_fresh(CHAT, ANN)
        assert not cache.is_fresh(CHAT, BOB)
        assert not cache.is_fresh(ChatId("another"), ANN)

    def test_a_member_read_under_another_count_of_departures_is_not_remembered(self) -> None:
        cache = MembershipCache(monotonic=FakeMonotonic())
        cache.remember_counter(CHAT, CounterState(0, departures=1))
        cache.remember_member(CHAT, ANN, departures=0)
        assert not cache.is_fresh(CHAT, ANN)

    def test_a_counter_that_is_read_again_forgets_the_members(self) -> None:
        cache = MembershipCache(monotonic=FakeMonotonic())
        cache.remember_counter(CHAT, CounterState(0))
        cache.remember_member(CHAT, ANN, departures=0)
        cache.remember_counter(CHAT, CounterState(0, departures=1))
        assert not cache.is_fresh(CHAT, ANN)

    def test_all_members_of_a_chat_expire_with_the_first_that_was_read(self) -> None:
        clock = FakeMonotonic()
        cache = MembershipCache(monotonic=clock)
        cache.remember_counter(CHAT, CounterState(0))
        cache.remember_member(CHAT, ANN, departures=0)
        clock.moment += MEMBER_TTL - 1
        cache.remember_member(CHAT, BOB, departures=0)
        assert cache.is_fresh(CHAT, ANN)
        assert cache.is_fresh(CHAT, BOB)
        clock.moment += 1
        assert not cache.is_fresh(CHAT, ANN)
        assert not cache.is_fresh(CHAT, BOB)
        cache.remember_member(CHAT, BOB, departures=0)
        assert cache.is_fresh(CHAT, BOB)
        assert not cache.is_fresh(CHAT, ANN)
