"""Acknowledging over REST, and through the buffer that sockets share."""

from collections.abc import Iterator
from typing import Any

import pytest

from delivery.domain import Mark
from delivery.services.mark_buffer import MarkBuffer
from foundation.kernel.errors import ParleyError
from foundation.kernel.ids import ChatId
from tests.doubles import eventually
from tests.integration.chats.services import Person, Services


@pytest.fixture
def chat(services: Services) -> "Chat":
    return Chat(services)


class Chat:
    """Ada and Bob, five messages."""

    def __init__(self, services: Services) -> None:
        self.ada, self.bob, self.eve = services.user(), services.user(), services.user()
        self.chat_id = ChatId(self.ada.create_group(self.bob).body["chat_id"])
        for number in range(5):
            services.say(self.chat_id, self.ada.user_id, f"№ {number}")

    def ack(self, person: Person, sequence: object) -> tuple[int, object]:
        answer = person.post(f"/api/chats/{self.chat_id}/ack", {"sequence": sequence})
        return answer.status, answer.body["last_acked_sequence"] if answer.code is None else answer.code


class TestOverRest:
    def test_the_watermark_goes_up_and_never_down(self, chat: Chat) -> None:
        assert [chat.ack(chat.bob, sequence) for sequence in (3, 2, 3, 5)] == [(200, 3), (200, 3), (200, 3), (200, 5)]

    def test_the_unread_count_follows(self, chat: Chat) -> None:
        chat.ack(chat.bob, 4)
        (entry,) = chat.bob.get("/api/chats").body["items"]
        assert (entry["last_acked_sequence"], entry["unread_count"]) == (4, 1)

    def test_beyond_the_latest_message_is_refused(self, chat: Chat) -> None:
        assert chat.ack(chat.bob, 6) == (422, "sequence_out_of_range")
        assert chat.bob.get("/api/delivery").body["items"] == []

    def test_who_is_not_a_member_learns_nothing(self, chat: Chat) -> None:
        assert chat.ack(chat.eve, 1) == (404, "chat_not_found")
        answer = chat.ada.post("/api/chats/nonsense/ack", {"sequence": 1})
        assert (answer.status, answer.code) == (404, "chat_not_found")

    @pytest.mark.parametrize("sequence", [0, -1, "3", 1.5, True, None, 2**53, 10**400])
    def test_what_is_no_sequence_is_422(self, chat: Chat, sequence: object) -> None:
        assert chat.ack(chat.bob, str(sequence) if sequence == 10**400 else sequence) == (422, "invalid_request")

    def test_one_lists_ones_own_watermarks_by_pages(self, services: Services, chat: Chat) -> None:
        second = ChatId(chat.bob.create_group(chat.ada).body["chat_id"])
        services.say(second, chat.bob.user_id, "hi")
        chat.ack(chat.bob, 2)
        chat.bob.post(f"/api/chats/{second}/ack", {"sequence": 1})
        first_page = chat.bob.get("/api/delivery", limit=1).body
        second_page = chat.bob.get("/api/delivery", limit=1, cursor=first_page["next_cursor"]).body
        found = [(item["chat_id"], item["last_acked_sequence"]) for item in first_page["items"] + second_page["items"]]
        assert sorted(found) == sorted([(chat.chat_id, 2), (second, 1)])
        assert second_page["next_cursor"] is None
        stolen = chat.ada.get("/api/delivery", cursor=first_page["next_cursor"])
        assert (stolen.status, stolen.code) == (400, "invalid_request")


class Buffer:
    """A `MarkBuffer` on the services' loop."""

    def __init__(self, services: Services, **options: Any) -> None:
        self._loop = services.database.loop
        self._buffer = MarkBuffer(services.acknowledgements, **options)

    def put(self, person: Person, chat: Chat, sequence: int) -> list[ParleyError]:
        """The list gets the refusal, if it is refused."""
        refusals: list[ParleyError] = []

        async def put() -> None:
            self._buffer.put(person.user_id, chat.chat_id, Mark.ACKED, sequence, on_refused=refusals.append)

        self._loop.run(put())
        return refusals

    def flush(self, person: Person, chat: Chat) -> None:
        async def flush() -> None:
            self._buffer.flush([(person.user_id, chat.chat_id)])

        self._loop.run(flush())

    def close(self) -> None:
        self._loop.run(self._buffer.close())


class TestThroughTheBuffer:
    @pytest.fixture
    def buffer(self, services: Services) -> Iterator[Buffer]:
        buffer = Buffer(services)
        yield buffer
        buffer.close()

    def watermark(self, services: Services, chat: Chat, person: Person) -> int:
        return services.database.loop.run(services.watermarks.get(person.user_id, chat.chat_id)).acked

    def test_the_first_is_written_at_once_and_the_highest_of_the_rest_at_the_end(
        self, services: Services, chat: Chat, buffer: Buffer
    ) -> None:
        refusals = buffer.put(chat.bob, chat, 1)
        eventually(lambda: self.watermark(services, chat, chat.bob) == 1)
        for sequence in (2, 4, 3):
            refusals += buffer.put(chat.bob, chat, sequence)
        buffer.close()
        assert self.watermark(services, chat, chat.bob) == 4
        assert refusals == []

    def test_flushed_when_the_connection_is_lost_it_does_not_wait(self, services: Services, chat: Chat) -> None:
        buffer = Buffer(services, monotonic=lambda: 0.0)
        buffer.put(chat.bob, chat, 1)
        eventually(lambda: self.watermark(services, chat, chat.bob) == 1)
        buffer.put(chat.bob, chat, 2)
        assert self.watermark(services, chat, chat.bob) == 1
        buffer.flush(chat.bob, chat)
        eventually(lambda: self.watermark(services, chat, chat.bob) == 2)
        buffer.close()

    def test_a_refusal_is_reported_and_does_not_stop_the_others(
        self, services: Services, chat: Chat, buffer: Buffer
    ) -> None:
        beyond = buffer.put(chat.ada, chat, 99)
        foreign = buffer.put(chat.eve, chat, 1)
        good = buffer.put(chat.bob, chat, 5)
        buffer.close()
        assert [error.code for error in beyond] == ["sequence_out_of_range"]
        assert [error.code for error in foreign] == ["chat_not_found"]
        assert good == []
        assert self.watermark(services, chat, chat.bob) == 5
        assert self.watermark(services, chat, chat.ada) == 0

    def test_a_sequence_out_of_range_does_not_hide_valid_ones_of_the_same_user(
        self, services: Services, chat: Chat, buffer: Buffer
    ) -> None:
        refusals = {sequence: buffer.put(chat.bob, chat, sequence) for sequence in (3, 9999, 4)}
        buffer.close()
        assert self.watermark(services, chat, chat.bob) == 4
        assert [error.code for error in refusals[9999]] == ["sequence_out_of_range"]
        assert (refusals[3], refusals[4]) == ([], [])

    def test_one_that_is_behind_already_does_not_stop_the_others(self, services: Services, chat: Chat) -> None:
        run, marks = services.database.loop.run, services.acknowledgements
        run(marks.move(chat.ada.user_id, chat.chat_id, Mark.ACKED, 5))
        claims = {
            (chat.ada.user_id, chat.chat_id): [(Mark.ACKED, 2)],
            (chat.bob.user_id, chat.chat_id): [(Mark.ACKED, 3)],
        }
        assert run(marks.move_many(claims)).refused == {}
        assert self.watermark(services, chat, chat.ada) == 5
        assert self.watermark(services, chat, chat.bob) == 3
