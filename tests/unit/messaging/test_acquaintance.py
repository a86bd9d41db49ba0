from chats.domain import Tally
from foundation.kernel.ids import ChatId, UserId
from messaging.services.acquaintance import BELIEVED_FOR, Acquaintance

CHAT, ANN, BOB = ChatId("chat"), UserId("ann"), UserId("bob")


class Hand:
    """A clock's."""

    moment = 100.0

    def __call__(self) -> float:
        return self.moment


class TestCounters:
    def test_an_unknown_chat_has_no_tally(self) -> None:
        assert Acquaintance(monotonic=Hand()).tally_of(CHAT) is None

    def test_our_own_writes_move_the_sequence_and_leave_the_departures(self) -> None:
        known = Acquaintance(monotonic=Hand())
        known.meet(CHAT, Tally(7, departures=2))
        known.move(CHAT, 9)
        assert known.tally_of(CHAT) == Tally(9, departures=2)

    def test_a_chat_that_was_forgotten_meanwhile_does_not_come_back_by_a_write(self) -> None:
        known = Acquaintance(monotonic=Hand())
        known.meet(CHAT, Tally(7))
        known.forget(CHAT)
        known.move(CHAT, 8)
        assert known.tally_of(CHAT) is None

    def test_the_chats_not_written_for_longest_are_forgotten_first(self) -> None:
        known = Acquaintance(monotonic=Hand(), capacity=2)
        for name in ("a", "b"):
            known.meet(ChatId(name), Tally(0))
        known.move(ChatId("a"), 1)
        known.meet(ChatId("c"), Tally(0))
        assert [known.tally_of(ChatId(name)) for name in ("a", "b", "c")] == [Tally(1), None, Tally(0)]


class TestMembers:
    def test_who_was_seen_is_known_and_nobody_else(self) -> None:
        known = Acquaintance(monotonic=Hand())
        known.meet(CHAT, Tally(0))
        known.believe(CHAT, ANN, departures=0)
        assert known.knows(CHAT, ANN)
        assert not known.knows(CHAT, BOB)
        assert not known.knows(ChatId("another"), ANN)

    def test_who_was_seen_when_the_departures_were_others_is_not_believed(self) -> None:
        known = Acquaintance(monotonic=Hand())
        known.meet(CHAT, Tally(0, departures=1))
        known.believe(CHAT, ANN, departures=0)
        assert not known.knows(CHAT, ANN)

    def test_meeting_a_chat_again_forgets_its_members(self) -> None:
        known = Acquaintance(monotonic=Hand())
        known.meet(CHAT, Tally(0))
        known.believe(CHAT, ANN, departures=0)
        known.meet(CHAT, Tally(0, departures=1))
        assert not known.knows(CHAT, ANN)

    def test_belief_ends_with_the_first_that_was_seen(self) -> None:
        clock = Hand()
        known = Acquaintance(monotonic=clock)
        known.meet(CHAT, Tally(0))
        known.believe(CHAT, ANN, departures=0)
        clock.moment += BELIEVED_FOR - 1
        known.believe(CHAT, BOB, departures=0)
        assert known.knows(CHAT, ANN)
        assert known.knows(CHAT, BOB)
        clock.moment += 1
        assert not known.knows(CHAT, ANN)
        assert not known.knows(CHAT, BOB)
        known.believe(CHAT, BOB, departures=0)
        assert known.knows(CHAT, BOB)
        assert not known.knows(CHAT, ANN)
