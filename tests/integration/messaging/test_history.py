import threading
from typing import Any

import orjson
import pytest

from chats.errors import ChatNotFound
from delivery.gateway.frames import sync_batch
from foundation.kernel.ids import ChatId, UserId
from foundation.stores.errors import StoreUnavailable
from messaging.domain import MAX_CONTENT_BYTES, Draft, Kind
from messaging.errors import MessageNotFound
from messaging.services.history import MAX_PAGE_BYTES, MAX_WINDOWS_OF_A_USER, SPAN_RETRY, Window
from tests.doubles import eventually
from tests.integration.messaging.services import Call, Caller, Services


@pytest.fixture
def talk(services: Services, chat: ChatId, ann: UserId) -> ChatId:
    """Ann's and Bob's chat with 250 messages."""
    for answer in [services.submit(services.draft(chat, ann, f"id-{number}")) for number in range(250)]:
        answer.result(20)
    services.wire.requests.clear()
    return chat


class TestPages:
    def test_forward_pages_walk_the_whole_chat_oldest_first(
        self, services: Services, talk: ChatId, bob: UserId
    ) -> None:
        walked: list[int] = []
        while True:
            page = services.page(talk, bob, Window(after=walked[-1] if walked else 0))
            walked += [message.sequence for message in page.messages]
            assert page.latest_sequence == 250
            if not page.has_more:
                break
        assert walked == list(range(1, 251))

    def test_backward_pages_walk_the_whole_chat_newest_first(
        self, services: Services, talk: ChatId, bob: UserId
    ) -> None:
        page = services.page(talk, bob, Window())
        walked = [message.sequence for message in page.messages]
        while page.has_more:
            page = services.page(talk, bob, Window(before=walked[-1]))
            walked += [message.sequence for message in page.messages]
        assert walked == list(range(250, 0, -1))

    def test_a_limit_cuts_a_page_and_says_so(self, services: Services, talk: ChatId, bob: UserId) -> None:
        assert services.sequences(talk, bob, after=10, limit=3) == [11, 12, 13]
        assert services.sequences(talk, bob, before=10, limit=3) == [9, 8, 7]
        assert services.sequences(talk, bob, limit=3) == [250, 249, 248]
        assert services.page(talk, bob, Window(after=248, limit=1)).has_more
        assert not services.page(talk, bob, Window(after=249, limit=1)).has_more
        assert services.page(talk, bob, Window(before=3, limit=1)).has_more
        assert not services.page(talk, bob, Window(before=2, limit=1)).has_more

    @pytest.mark.parametrize("window", [Window(after=250), Window(after=10**9), Window(before=1)])
    def test_beyond_either_end_there_is_nothing_more(
        self, services: Services, talk: ChatId, bob: UserId, window: Window
    ) -> None:
        page = services.page(talk, bob, window)
        assert (page.messages, page.has_more, page.latest_sequence) == ((), False, 250)

    def test_an_empty_chat_is_empty(self, services: Services, chat: ChatId, bob: UserId) -> None:
        page = services.page(chat, bob, Window())
        assert (page.messages, page.has_more, page.latest_sequence) == ((), False, 0)

    def test_pages_larger_than_dynamodbs_own_are_read_to_the_end(
        self, services: Services, chat: ChatId, ann: UserId
    ) -> None:
        content = "😀" * 1024
        drafts = [services.draft(chat, ann, f"id-{number}", content) for number in range(260)]
        for answer in [services.submit(draft) for draft in drafts]:
            answer.result(20)
        assert [each.sequence for each in services.stored(chat)] == list(range(1, 261))
        backward = services.stored(chat, newest_first=True)
        assert [each.sequence for each in backward] == list(range(260, 0, -1))


class TestLargePages:
    """A page ends before it takes more than 512 KB; a message alone is a page, whatever it takes."""

    @pytest.fixture
    def large(self, services: Services, chat: ChatId, ann: UserId) -> ChatId:
        """Sixty messages whose characters take six bytes of JSON each: more than two pages."""
        drafts = [services.draft(chat, ann, f"id-{number}", "\x01" * MAX_CONTENT_BYTES) for number in range(60)]
        for answer in [services.submit(draft) for draft in drafts]:
            answer.result(20)
        return chat

    @pytest.mark.parametrize("forward", [True, False], ids=["forward", "backward"])
    def test_they_walk_the_whole_chat(self, services: Services, large: ChatId, bob: UserId, forward: bool) -> None:
        pages = [services.page(large, bob, Window(after=0) if forward else Window())]
        while pages[-1].has_more:
            end = pages[-1].messages[-1].sequence
            pages.append(services.page(large, bob, Window(after=end) if forward else Window(before=end)))
        walked = [message.sequence for page in pages for message in page.messages]
        assert walked == (list(range(1, 61)) if forward else list(range(60, 0, -1)))
        assert [len(page.messages) for page in pages] == [21, 21, 18]
        for page in pages:
            assert len(orjson.loads(page.encoded_messages)) == len(page.messages)
            assert len(page.encoded_messages) <= MAX_PAGE_BYTES + 100, "but for the list's own commas and brackets"

    def test_rest_and_sync_end_at_the_same_place_and_say_so(
        self, services: Services, large: ChatId, bob: UserId
    ) -> None:
        status, body = Caller(bob).get(f"/api/chats/{large}/messages", after_sequence=0)
        assert (status, len(body["messages"]), body["has_more"], body["latest_sequence"]) == (200, 21, True, 60)
        frame = orjson.loads(sync_batch(large, services.page(large, bob, Window(after=0))).payload)
        assert frame == {"type": "sync_batch", "chat_id": large, **body}

    def test_edits_count_with_the_text_of_their_targets(self, services: Services, chat: ChatId, ann: UserId) -> None:
        services.send(services.draft(chat, ann))
        text = "\x01" * MAX_CONTENT_BYTES
        for number in range(40):
            services.send(Draft(chat, ann, f"edit-{number}", text, kind=Kind.EDIT, target=1))
        page = services.page(chat, ann, Window(after=0))
        assert (len(page.messages), page.has_more) == (21, True)
        assert services.page(chat, ann, Window(after=21)).messages[-1].sequence == 41

    def test_one_that_is_too_large_by_itself_is_returned_alone(
        self, services: Services, large: ChatId, bob: UserId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("messaging.services.history.MAX_PAGE_BYTES", 1_000)
        page = services.page(large, bob, Window(after=0))
        assert ([message.sequence for message in page.messages], page.has_more) == ([1], True)


class TestTornPages:
    """A query is no snapshot: a page that lacks an entry that the counter has passed is read again."""

    def lose(self, services: Services, *sequences: int, times: int) -> None:
        """Let the next queries miss these entries."""
        left = [None] * times

        async def lose(name: str, request: dict[str, Any], send: Call) -> dict[str, Any]:
            answer = await send(name, request)
            if name == "Query" and left:
                left.pop()
                kept = [item for item in answer["Items"] if int(item["sequence"]["N"]) not in sequences]
                return {**answer, "Items": kept, "Count": len(kept)}
            return answer

        services.wire.intercept = lose

    @pytest.mark.parametrize("window", [Window(after=240), Window(limit=10), Window(before=251, limit=10)])
    @pytest.mark.parametrize("lost", [(250,), (245,), (241,), (241, 245, 250)])
    def test_it_is_read_until_it_is_whole(
        self, services: Services, talk: ChatId, bob: UserId, window: Window, lost: tuple[int, ...]
    ) -> None:
        self.lose(services, *lost, times=2)
        page = services.page(talk, bob, window)
        assert sorted(message.sequence for message in page.messages) == list(range(241, 251))
        assert services.wire.operations == ["BatchGetItem", "Query", "Query", "Query"]

    def test_an_entry_that_stays_away_is_logged_and_the_others_are_shown(
        self, services: Services, talk: ChatId, bob: UserId, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.lose(services, 245, times=100)
        assert services.sequences(talk, bob, after=240) == [241, 242, 243, 244, 246, 247, 248, 249, 250]
        assert f"{talk} lacks entries between 241 and 250" in caplog.text
        assert services.wire.operations.count("Query") == SPAN_RETRY.attempts

    def test_what_is_stored_behind_the_counter_that_was_read_is_not_waited_for(
        self, services: Services, talk: ChatId, ann: UserId, bob: UserId
    ) -> None:
        with services.wire.held("Query") as arrived:
            early = services.ask(talk, bob, Window(after=248))
            assert arrived.wait(10)
            services.send(services.draft(talk, ann, "latest"))
        page = early.result(20)
        assert ([message.sequence for message in page.messages], page.latest_sequence) == ([249, 250], 250)
        assert services.wire.operations.count("Query") == 1


class TestRights:
    def test_a_stranger_gets_chat_not_found(self, services: Services, talk: ChatId) -> None:
        stranger = services.ids.user()
        for window in (Window(), Window(after=0), Window(before=5)):
            with pytest.raises(ChatNotFound):
                services.page(talk, stranger, window)
        with pytest.raises(ChatNotFound):
            services.get_message(talk, stranger, 1)
        assert "Query" not in services.wire.operations

    def test_membership_is_checked_each_time(self, services: Services, talk: ChatId, bob: UserId) -> None:
        assert services.sequences(talk, bob, limit=1) == [250]
        services.remove(talk, bob)
        with pytest.raises(ChatNotFound):
            services.page(talk, bob, Window(limit=1))

    def test_a_chat_that_does_not_exist_is_not_found(self, services: Services, bob: UserId) -> None:
        for chat_id in (services.ids.chat(), ChatId("nope"), ChatId("request#user")):
            with pytest.raises(ChatNotFound):
                services.page(chat_id, bob, Window())
            with pytest.raises(ChatNotFound):
                services.get_message(chat_id, bob, 1)


class TestSingleMessages:
    def test_a_message_is_found_by_its_sequence_in_one_request(
        self, services: Services, talk: ChatId, bob: UserId
    ) -> None:
        assert services.get_message(talk, bob, 17).client_message_id == "id-16"
        assert services.wire.operations == ["BatchGetItem"]

    @pytest.mark.parametrize("sequence", [251, 10**15])
    def test_a_place_without_a_message_is_not_found(
        self, services: Services, talk: ChatId, bob: UserId, sequence: int
    ) -> None:
        with pytest.raises(MessageNotFound):
            services.get_message(talk, bob, sequence)

    def test_messages_by_place(self, services: Services, talk: ChatId, chat: ChatId) -> None:
        places = [(talk, 1), (talk, 250), (talk, 251)]
        assert {
            place: message.sequence for place, message in services.run(services.history.messages_at(places)).items()
        } == {
            (talk, 1): 1,
            (talk, 250): 250,
        }


class TestTheRequestsOfARead:
    def test_a_page_is_one_strong_batch_read_and_one_strong_query(
        self, services: Services, talk: ChatId, bob: UserId
    ) -> None:
        for window in (Window(), Window(after=100), Window(before=100)):
            services.wire.requests.clear()
            services.page(talk, bob, window)
            (first, rights), (second, query) = services.wire.requests
            assert (first, second) == ("BatchGetItem", "Query")
            assert all(table["ConsistentRead"] for table in rights["RequestItems"].values())
            assert query["ConsistentRead"]

    def test_a_hundred_readers_at_once_share_a_handful_of_queries(
        self, services: Services, talk: ChatId, ann: UserId, bob: UserId
    ) -> None:
        stranger = services.ids.user()
        with services.wire.held("BatchGetItem") as arrived:
            opening = services.ask(talk, ann, Window())
            assert arrived.wait(10)
            asked = [
                (reader, after, services.ask(talk, reader, Window(after=after)))
                for after in (0, 50, 51, 90)
                for reader in (ann, bob, stranger) * 10
            ]
        opening.result(20)
        for reader, after, answer in asked:
            if reader == stranger:
                assert isinstance(answer.exception(20), ChatNotFound)
            else:
                assert [message.sequence for message in answer.result(20).messages] == list(
                    range(after + 1, min(after + 100, 250) + 1)
                )
        assert services.wire.operations == ["BatchGetItem", "Query"] * 2

    def test_one_users_many_windows_leave_room_for_another_reader_in_the_next_read(
        self, services: Services, talk: ChatId, ann: UserId, bob: UserId
    ) -> None:
        with services.wire.held("BatchGetItem") as arrived:
            services.ask(talk, ann, Window())
            assert arrived.wait(10)
            many = [services.ask(talk, ann, Window(after=after)) for after in range(10 * MAX_WINDOWS_OF_A_USER)]
            other = services.ask(talk, bob, Window(after=249))
            done: list[object] = []
            for answer in (*many, other):
                answer.add_done_callback(done.append)
        for answer in many:
            answer.result(20)
        assert done.index(other) <= MAX_WINDOWS_OF_A_USER

    def test_a_large_page_is_encoded_before_its_readers_get_it(
        self, services: Services, talk: ChatId, ann: UserId, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("messaging.services.history.LARGE_PAGE", 10)
        assert "_encoded" in services.page(talk, ann, Window()).__dict__

    def test_readers_of_the_same_page_share_its_json(
        self, services: Services, talk: ChatId, ann: UserId, bob: UserId
    ) -> None:
        with services.wire.held("BatchGetItem") as arrived:
            services.ask(talk, ann, Window())
            assert arrived.wait(10)
            asked = [services.ask(talk, reader, Window(after=5)) for reader in (ann, bob)]
        first, second = (answer.result(20) for answer in asked)
        assert first.encoded_messages is second.encoded_messages

    def test_a_read_asked_for_after_a_write_sees_it_though_another_read_is_under_way(
        self, services: Services, talk: ChatId, ann: UserId, bob: UserId
    ) -> None:
        with services.wire.held("Query") as arrived:
            early = services.ask(talk, ann, Window(after=249))
            assert arrived.wait(10)
            services.send(services.draft(talk, ann, "latest"))
            late = services.ask(talk, bob, Window(after=249))
        assert early.result(20).latest_sequence == 250
        assert [message.sequence for message in late.result(20).messages] == [250, 251]


class TestFaults:
    def test_an_unavailable_store_fails_every_reader_and_the_next_read_is_fresh(
        self, services: Services, talk: ChatId, ann: UserId
    ) -> None:
        services.wire.fail("Query", [StoreUnavailable("no answer")])
        with pytest.raises(StoreUnavailable):
            services.page(talk, ann, Window())
        assert services.sequences(talk, ann, limit=1) == [250]

    def test_readers_and_a_writer_at_once_always_see_a_dense_prefix(
        self, services: Services, chat: ChatId, ann: UserId, bob: UserId
    ) -> None:
        done = threading.Event()
        seen: list[list[int]] = []

        def read() -> None:
            while not done.is_set():
                seen.append(services.sequences(chat, bob, after=0))

        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        eventually(lambda: seen)
        for number in range(60):
            services.send(services.draft(chat, ann, f"id-{number}"))
        done.set()
        for reader in readers:
            reader.join(20)
        assert all(page == list(range(1, len(page) + 1)) for page in seen)
        assert services.sequences(chat, bob, after=0) == list(range(1, 61))
