"""Read marks, receipts and presence over REST, and both marks through the buffer that sockets share."""

import random
from typing import Any

import pytest

from accounts.domain import ProfileChange
from delivery.domain import Mark, Marks
from delivery.services.mark_buffer import MarkBuffer
from foundation.kernel.errors import ParleyError
from foundation.kernel.ids import ChatId, UserId
from tests.integration.chats.services import Person, Services, captured


class Chat:
    """Ada and Bob, and Eve who is not in it; five messages."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.ada, self.bob, self.eve = services.user(), services.user(), services.user()
        self.chat_id = ChatId(self.ada.create_group(self.bob).body["chat_id"])
        for number in range(5):
            services.say(self.chat_id, self.ada.user_id, f"№ {number}")

    def read(self, person: Person, sequence: object) -> tuple[int, object]:
        answer = person.post(f"/api/chats/{self.chat_id}/read", {"sequence": sequence})
        return answer.status, answer.body if answer.code is None else answer.code

    def ack(self, person: Person, sequence: int) -> int:
        answer = person.post(f"/api/chats/{self.chat_id}/ack", {"sequence": sequence})
        return int(answer.body["last_acked_sequence"])

    def receipts(self, viewer: Person, **query: object) -> dict[str, dict[str, int]]:
        items = viewer.get(f"/api/chats/{self.chat_id}/receipts", **query).body["items"]
        return {item.pop("user_id"): item for item in items}

    def marks(self, person: Person) -> Marks:
        return self.services.database.loop.run(self.services.watermarks.get(person.user_id, self.chat_id))

    def hide(self, person: Person, change: ProfileChange) -> None:
        self.services.user_store.change(person.user_id, change, now=self.services.clock.now())


@pytest.fixture
def chat(services: Services) -> Chat:
    return Chat(services)


def marks(acked: int, read: int) -> dict[str, int]:
    return {"last_acked_sequence": acked, "last_read_sequence": read}


class TestReading:
    def test_the_mark_goes_up_and_never_down_and_what_was_read_has_arrived(self, chat: Chat) -> None:
        assert [chat.read(chat.bob, sequence) for sequence in (3, 2, 5)] == [
            (200, marks(3, 3)),
            (200, marks(3, 3)),
            (200, marks(5, 5)),
        ]
        assert chat.marks(chat.bob) == Marks(acked=0, read=5)
        assert chat.ack(chat.bob, 4) == 5

    def test_an_acknowledgement_tells_nothing_of_the_reader(self, chat: Chat) -> None:
        chat.ack(chat.bob, 4)
        assert chat.read(chat.bob, 2) == (200, marks(4, 2))

    def test_unread_is_counted_from_the_read_mark_else_from_what_has_arrived(self, chat: Chat) -> None:
        def entry() -> tuple[int, int, int]:
            (found,) = chat.bob.get("/api/chats").body["items"]
            return found["last_acked_sequence"], found["last_read_sequence"], found["unread_count"]

        assert entry() == (0, 0, 5)
        chat.ack(chat.bob, 4)
        assert entry() == (4, 0, 1)
        chat.read(chat.bob, 2)
        assert entry() == (4, 2, 3)

    def test_beyond_the_latest_and_strangers_are_refused(self, chat: Chat) -> None:
        assert chat.read(chat.bob, 6) == (422, "sequence_out_of_range")
        assert chat.read(chat.eve, 1) == (404, "chat_not_found")
        assert chat.marks(chat.bob) == Marks()

    def test_it_costs_one_write(self, chat: Chat) -> None:
        with captured(chat.services.database) as requests:
            chat.read(chat.bob, 1)
        writes = [operation for operation, _ in requests if operation not in ("BatchGetItem", "GetItem")]
        assert writes == ["UpdateItem"]


class TestReceipts:
    def test_every_member_is_listed_by_pages(self, chat: Chat) -> None:
        chat.ack(chat.ada, 5)
        chat.read(chat.bob, 3)
        assert chat.receipts(chat.ada) == {
            chat.ada.user_id: {"last_acked_sequence": 5},
            chat.bob.user_id: marks(3, 3),
        }
        first = chat.ada.get(f"/api/chats/{chat.chat_id}/receipts", limit=1).body
        assert len(chat.receipts(chat.ada, limit=1, cursor=first["next_cursor"])) == 1

    @pytest.mark.parametrize("hiding", ["ada", "bob"])
    def test_who_hides_neither_shows_nor_sees_read_marks_but_sees_the_own(self, chat: Chat, hiding: str) -> None:
        for person in (chat.ada, chat.bob):
            chat.read(person, 3)
        chat.hide(getattr(chat, hiding), ProfileChange(read_receipts=False))
        for viewer, other in ((chat.ada, chat.bob), (chat.bob, chat.ada)):
            seen = chat.receipts(viewer)
            assert seen == {viewer.user_id: marks(3, 3), other.user_id: {"last_acked_sequence": 3}}

    def test_who_hides_after_having_been_seen_is_hidden_at_once(self, chat: Chat) -> None:
        chat.read(chat.bob, 3)
        assert chat.receipts(chat.ada)[chat.bob.user_id] == marks(3, 3)
        chat.hide(chat.bob, ProfileChange(read_receipts=False))
        assert chat.receipts(chat.ada)[chat.bob.user_id] == {"last_acked_sequence": 3}

    def test_a_stranger_learns_nothing(self, chat: Chat) -> None:
        answer = chat.eve.get(f"/api/chats/{chat.chat_id}/receipts")
        assert (answer.status, answer.code) == (404, "chat_not_found")


class TestPresence:
    def ask(self, chat: Chat, viewer: Person, *user_ids: UserId) -> list[dict[str, str]]:
        query = "&".join(f"user_id={user_id}" for user_id in user_ids)
        items: list[dict[str, str]] = viewer.get(f"/api/presence?chat_id={chat.chat_id}&{query}").body["items"]
        return items

    def test_only_members_of_the_chat_are_shown_in_the_order_asked(self, chat: Chat) -> None:
        chat.services.online.user_ids = {chat.bob.user_id, chat.eve.user_id}
        asked = self.ask(chat, chat.ada, chat.eve.user_id, chat.ada.user_id, chat.bob.user_id, chat.bob.user_id)
        assert asked == [
            {"user_id": chat.ada.user_id, "status": "offline"},
            {"user_id": chat.bob.user_id, "status": "online"},
        ]

    def test_last_seen_is_recorded_at_most_once_a_minute_and_only_for_who_shows_it(self, chat: Chat) -> None:
        services, bob = chat.services, chat.bob.user_id
        directory, run = services.users, services.database.loop.run
        first = services.clock.now()
        run(directory.record_last_seen(bob, now=first))
        services.clock.advance(seconds=59)  # type: ignore[attr-defined]
        run(directory.record_last_seen(bob, now=services.clock.now()))
        assert run(directory.find_visibility([bob]))[bob].last_seen == first
        assert self.ask(chat, chat.ada, bob)[0]["last_seen"] == "2035-01-30T14:30:00.000Z"
        services.clock.advance(seconds=2)  # type: ignore[attr-defined]
        run(directory.record_last_seen(bob, now=services.clock.now()))
        assert run(directory.find_visibility([bob]))[bob].last_seen != first
        chat.hide(chat.bob, ProfileChange(show_presence=False))
        assert self.ask(chat, chat.ada, bob) == [{"user_id": bob, "status": "offline"}]
        services.clock.advance(minutes=5)  # type: ignore[attr-defined]
        seen = run(directory.find_visibility([bob]))[bob].last_seen
        run(directory.record_last_seen(bob, now=services.clock.now()))
        assert run(directory.find_visibility([bob]))[bob].last_seen == seen

    def test_a_user_that_leaves_is_offline_and_seen_now(self, chat: Chat) -> None:
        services, bob = chat.services, chat.bob.user_id
        services.online.user_ids = {bob}
        services.database.loop.run(services.presence.leave({bob}))
        assert self.ask(chat, chat.ada, bob) == [
            {"user_id": bob, "status": "offline", "last_seen": "2035-01-30T14:30:00.000Z"}
        ]

    @pytest.mark.parametrize("query", ["", "chat_id=x", "user_id=x", "chat_id=x&" + "user_id=x&" * 101])
    def test_a_bad_question_is_422_and_a_stranger_gets_404(self, chat: Chat, query: str) -> None:
        assert chat.ada.get(f"/api/presence?{query}").status == 422
        asked = f"/api/presence?chat_id={chat.chat_id}&user_id={chat.ada.user_id}"
        assert chat.eve.get(asked).code == "chat_not_found"


class TestMoving:
    @pytest.fixture
    def moved(self, services: Services, monkeypatch: pytest.MonkeyPatch) -> list[Marks]:
        """What the service tells of marks that have moved."""
        moved: list[Marks] = []
        monkeypatch.setattr(services.acknowledgements, "_on_moved", lambda *told: moved.append(told[2]))
        return moved

    @pytest.mark.parametrize("mark", Mark)
    def test_a_mark_that_was_written_and_not_answered_is_told_by_the_next_attempt(
        self, services: Services, chat: Chat, moved: list[Marks], mark: Mark, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wire = services.database.on_loop.wire
        exchange, answers = wire._exchange, [TimeoutError()]

        async def lose_an_answer(operation: str, body: bytes) -> dict[str, Any]:
            answer = await exchange(operation, body)
            if operation == "UpdateItem" and answers:
                raise answers.pop()
            return answer

        monkeypatch.setattr(wire, "_exchange", lose_an_answer)
        services.database.loop.run(services.acknowledgements.move(chat.bob.user_id, chat.chat_id, mark, 4))
        assert (answers, moved) == ([], [Marks(acked=4) if mark is Mark.ACKED else Marks(read=4)])

    def test_a_mark_that_stands_further_is_not_told_again(
        self, services: Services, chat: Chat, moved: list[Marks]
    ) -> None:
        for sequence in (4, 3):
            moving = services.acknowledgements.move(chat.bob.user_id, chat.chat_id, Mark.ACKED, sequence)
            services.database.loop.run(moving)
        assert moved == [Marks(acked=4)]


class TestThroughTheBuffer:
    def test_both_marks_in_any_order_end_at_their_highest(self, services: Services, chat: Chat) -> None:
        refused: list[ParleyError] = []
        claims = [(Mark.ACKED, sequence) for sequence in (1, 2, 3, 4, 5)] + [(Mark.READ, 1), (Mark.READ, 4)]
        random.Random(7).shuffle(claims)

        async def put() -> None:
            buffer = MarkBuffer(services.acknowledgements)
            for mark, sequence in claims:
                buffer.put(chat.bob.user_id, chat.chat_id, mark, sequence, on_refused=refused.append)
            await buffer.close()

        services.database.loop.run(put())
        assert (chat.marks(chat.bob), refused) == (Marks(acked=5, read=4), [])

    def test_what_has_arrived_unread_is_counted_as_unread_at_the_cost_of_one_write(
        self, services: Services, chat: Chat
    ) -> None:
        def acknowledge(sequence: int) -> list[str]:
            async def put() -> None:
                buffer = MarkBuffer(services.acknowledgements)
                user_id = chat.bob.user_id
                buffer.put(user_id, chat.chat_id, Mark.ACKED, sequence, on_refused=refused.append, is_unread=True)
                await buffer.close()

            with captured(services.database) as requests:
                services.database.loop.run(put())
            return [operation for operation, _ in requests]

        def unread() -> tuple[int, int]:
            (found,) = chat.bob.get("/api/chats").body["items"]
            return found["unread_after"], found["unread_count"]

        refused: list[ParleyError] = []
        assert acknowledge(3) == ["BatchGetItem", "UpdateItem"]
        assert (chat.marks(chat.bob), unread()) == (Marks(acked=3, read=0), (0, 5))
        chat.read(chat.bob, 2)
        assert acknowledge(5) == ["BatchGetItem", "UpdateItem"]
        assert (chat.marks(chat.bob), unread()) == (Marks(acked=5, read=2), (2, 3))
        assert chat.receipts(chat.ada)[chat.bob.user_id] == marks(5, 2)
        assert acknowledge(9) == ["BatchGetItem"]
        assert [error.code for error in refused] == ["sequence_out_of_range"]

    def test_an_acknowledgement_that_the_read_mark_covers_is_not_written(self, services: Services, chat: Chat) -> None:
        pair = (chat.bob.user_id, chat.chat_id)
        with captured(services.database) as requests:
            moving = services.acknowledgements.move_many({pair: [(Mark.ACKED, 4), (Mark.READ, 4)]})
            services.database.loop.run(moving)
        assert [operation for operation, _ in requests] == ["BatchGetItem", "UpdateItem"]
        assert chat.marks(chat.bob) == Marks(acked=0, read=4)
