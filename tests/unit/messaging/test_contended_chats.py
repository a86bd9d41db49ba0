from foundation.kernel.ids import ChatId
from messaging.services.ingest import CONTENDED_FOR, ContendedChats

CHAT, OTHER = ChatId("chat"), ChatId("other")


class FakeMonotonic:
    moment = 100.0

    def __call__(self) -> float:
        return self.moment


class TestContendedChats:
    def test_a_chat_whose_sequence_moved_is_contended_for_a_while(self) -> None:
        clock = FakeMonotonic()
        chats = ContendedChats(monotonic=clock)
        chats.suspect(CHAT, 7)
        assert CHAT not in chats
        chats.check(CHAT, 8)
        assert CHAT in chats
        assert OTHER not in chats
        clock.moment += CONTENDED_FOR
        assert CHAT not in chats
        assert not chats

    def test_a_chat_whose_sequence_stands_is_not(self) -> None:
        chats = ContendedChats(monotonic=FakeMonotonic())
        chats.suspect(CHAT, 7)
        chats.check(CHAT, 7)
        chats.check(CHAT, 9)
        assert CHAT not in chats

    def test_memory_is_bounded(self) -> None:
        chats = ContendedChats(monotonic=FakeMonotonic(), capacity=2)
        for number in range(5):
            chats.suspect(ChatId(str(number)), 1)
            chats.check(ChatId(str(number)), 2)
        assert [number for number in range(5) if ChatId(str(number)) in chats] == [3, 4]
