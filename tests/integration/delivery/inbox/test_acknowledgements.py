"""Acknowledging over REST, and through the buffer that sockets share."""

from collections.abc import Iterator

import pytest

from delivery.services.ack_buffer import AckBuffer
from foundation.kernel.errors import ParleyError
from foundation.kernel.ids import ChatId
from tests.doubles import eventually
from tests.integration.chats.stage import Person, Stage


@pytest.fixture
def chat(stage: Stage) -> "Chat":
    return Chat(stage)


class Chat:
    """Ada and Bob, five messages."""

    def __init__(self, stage: Stage) -> None:
        self.ada, self.bob, self.eve = stage.user(), stage.user(), stage.user()
        self.chat_id = ChatId(self.ada.create_group(self.bob).body["chat_id"])
        for number in range(5):
            stage.say(self.chat_id, self.ada.user_id, f"№ {number}")

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

    def test_one_lists_ones_own_watermarks_by_pages(self, stage: Stage, chat: Chat) -> None:
        second = ChatId(chat.bob.create_group(chat.ada).body["chat_id"])
        stage.say(second, chat.bob.user_id, "hi")
        chat.ack(chat.bob, 2)
        chat.bob.post(f"/api/chats/{second}/ack", {"sequence": 1})
        first_page = chat.bob.get("/api/delivery", limit=1).body
        second_page = chat.bob.get("/api/delivery", limit=1, cursor=first_page["next_cursor"]).body
        found = [(item["chat_id"], item["last_acked_sequence"]) for item in first_page["items"] + second_page["items"]]
        assert sorted(found) == sorted([(chat.chat_id, 2), (second, 1)])
        assert second_page["next_cursor"] is None
        stolen = chat.ada.get("/api/delivery", cursor=first_page["next_cursor"])
        assert (stolen.status, stolen.code) == (400, "invalid_request")


class Refusals:
    def __init__(self) -> None:
        self.errors: list[ParleyError] = []

    def note(self, error: ParleyError) -> None:
        self.errors.append(error)


class TestThroughTheBuffer:
    @pytest.fixture
    def buffer(self, stage: Stage) -> Iterator[AckBuffer]:
        buffer = AckBuffer(stage.acknowledgements)
        yield buffer
        buffer.close()

    def watermark(self, stage: Stage, chat: Chat, person: Person) -> int:
        return stage.watermarks.get(person.user_id, chat.chat_id)

    def test_the_first_is_written_at_once_and_the_highest_of_the_rest_at_the_end(
        self, stage: Stage, chat: Chat, buffer: AckBuffer
    ) -> None:
        refusals = Refusals()
        buffer.put(chat.bob.user_id, chat.chat_id, 1, refused=refusals.note)
        eventually(lambda: self.watermark(stage, chat, chat.bob) == 1)
        for sequence in (2, 4, 3):
            buffer.put(chat.bob.user_id, chat.chat_id, sequence, refused=refusals.note)
        buffer.close()
        assert self.watermark(stage, chat, chat.bob) == 4
        assert refusals.errors == []

    def test_a_lost_connection_does_not_wait(self, stage: Stage, chat: Chat) -> None:
        buffer = AckBuffer(stage.acknowledgements, monotonic=lambda: 0.0)
        refusals = Refusals()
        pair = (chat.bob.user_id, chat.chat_id)
        buffer.put(*pair, 1, refused=refusals.note)
        eventually(lambda: self.watermark(stage, chat, chat.bob) == 1)
        buffer.put(*pair, 2, refused=refusals.note)
        assert self.watermark(stage, chat, chat.bob) == 1
        buffer.hurry([pair])
        eventually(lambda: self.watermark(stage, chat, chat.bob) == 2)
        buffer.close()

    def test_refusals_come_back_and_do_not_touch_the_others(self, stage: Stage, chat: Chat, buffer: AckBuffer) -> None:
        far, foreign, good = Refusals(), Refusals(), Refusals()
        buffer.put(chat.ada.user_id, chat.chat_id, 99, refused=far.note)
        buffer.put(chat.eve.user_id, chat.chat_id, 1, refused=foreign.note)
        buffer.put(chat.bob.user_id, chat.chat_id, 5, refused=good.note)
        buffer.close()
        assert [error.code for error in far.errors] == ["sequence_out_of_range"]
        assert [error.code for error in foreign.errors] == ["chat_not_found"]
        assert good.errors == []
        assert self.watermark(stage, chat, chat.bob) == 5
        assert self.watermark(stage, chat, chat.ada) == 0

    def test_what_one_device_makes_up_does_not_drown_what_another_has_received(
        self, stage: Stage, chat: Chat, buffer: AckBuffer
    ) -> None:
        honest, dreaming = Refusals(), Refusals()
        for sequence, refusals in ((3, honest), (9999, dreaming), (4, honest)):
            buffer.put(chat.bob.user_id, chat.chat_id, sequence, refused=refusals.note)
        buffer.close()
        assert self.watermark(stage, chat, chat.bob) == 4
        assert honest.errors == []
        assert [error.code for error in dreaming.errors] == ["sequence_out_of_range"]

    def test_one_that_is_behind_already_does_not_stop_the_others(self, stage: Stage, chat: Chat) -> None:
        stage.acknowledgements.acknowledge(chat.ada.user_id, chat.chat_id, 5)
        refused = stage.acknowledgements.acknowledge_many(
            {(chat.ada.user_id, chat.chat_id): [2], (chat.bob.user_id, chat.chat_id): [3]}
        )
        assert refused == {}
        assert self.watermark(stage, chat, chat.ada) == 5
        assert self.watermark(stage, chat, chat.bob) == 3
