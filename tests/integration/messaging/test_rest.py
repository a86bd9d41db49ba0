import pytest

from foundation.kernel.ids import ChatId, UserId
from foundation.stores.errors import StoreUnavailable
from tests.integration.messaging.services import Caller, Services

MESSAGE_FIELDS = {
    "kind",
    "message_id",
    "chat_id",
    "sequence",
    "sender_id",
    "client_message_id",
    "content",
    "content_type",
    "created_at",
}


@pytest.fixture
def caller(ann: UserId) -> Caller:
    return Caller(ann)


@pytest.fixture
def path(chat: ChatId) -> str:
    return f"/api/chats/{chat}/messages"


class TestSending:
    def test_a_new_message_is_201_and_a_retry_200(self, caller: Caller, path: str) -> None:
        body = {"client_message_id": "id-1", "content": "hello", "content_type": "text/plain"}
        status, first = caller.post(path, body)
        assert (status, first["duplicate"], first["sequence"]) == (201, False, 1)
        assert first.keys() == MESSAGE_FIELDS | {"duplicate"}
        status, again = caller.post(path, body)
        assert (status, again) == (200, {**first, "duplicate": True})

    def test_the_content_type_may_be_left_out(self, caller: Caller, path: str) -> None:
        status, sent = caller.post(path, {"client_message_id": "id-1", "content": " spaces stay "})
        assert (status, sent["content_type"], sent["content"]) == (201, "text/plain", " spaces stay ")

    def test_the_largest_content_is_stored(self, caller: Caller, path: str) -> None:
        content = "😀" * 1024
        assert caller.post(path, {"client_message_id": "id-1", "content": content})[0] == 201
        assert caller.get(f"{path}/1")[1]["content"] == content

    @pytest.mark.parametrize(
        ("body", "status", "code", "field"),
        [
            ({"content": "x" * 4097}, 422, "content_too_large", "content"),
            ({"content": "😀" * 1025}, 422, "content_too_large", "content"),
            ({"content": ""}, 422, "invalid_request", "content"),
            ({"content": "a\x00b"}, 422, "invalid_request", "content"),
            ({"content": 5}, 422, "invalid_request", "content"),
            ({"content": None}, 422, "invalid_request", "content"),
            ({"content": ["x"]}, 422, "invalid_request", "content"),
            ({"content_type": "text/html"}, 422, "invalid_request", "content_type"),
            ({"content_type": ""}, 422, "invalid_request", "content_type"),
            ({"client_message_id": ""}, 422, "invalid_request", "client_message_id"),
            ({"client_message_id": "x" * 129}, 422, "invalid_request", "client_message_id"),
            ({"client_message_id": "a\tb"}, 422, "invalid_request", "client_message_id"),
            ({"client_message_id": "ü"}, 422, "invalid_request", "client_message_id"),
            ({"client_message_id": 7}, 422, "invalid_request", "client_message_id"),
            ({"surprise": 1}, 422, "invalid_request", "surprise"),
        ],
    )
    def test_a_bad_value_names_its_field_and_stores_nothing(
        self, caller: Caller, path: str, services: Services, body: dict[str, object], status: int, code: str, field: str
    ) -> None:
        answered, problem = caller.post(path, {"client_message_id": "id-1", "content": "hello", **body})
        assert (answered, problem["code"]) == (status, code)
        assert list(problem["errors"]) == [field]
        assert services.wire.requests == []

    @pytest.mark.parametrize("body", [b"", {}, {"content": "x"}, {"client_message_id": "id-1"}, [], "text", None, 7])
    def test_a_body_that_is_no_draft_is_422(self, caller: Caller, path: str, body: object) -> None:
        assert caller.post(path, body)[0] == 422

    @pytest.mark.parametrize(
        "body",
        [b"{", b"\xff", b'{"client_message_id": "id-1", "content": "\\ud800"}', b"[" * 5000],
        ids=["half", "not UTF-8", "a lone surrogate", "deep"],
    )
    def test_what_is_not_json_is_400(self, caller: Caller, path: str, body: bytes) -> None:
        assert caller.post(path, body)[0] == 400

    def test_a_stranger_and_a_wrong_chat_get_the_same_404(self, services: Services, chat: ChatId, ann: UserId) -> None:
        body = {"client_message_id": "id-1", "content": "hello"}
        answers = [
            Caller(services.ids.user()).post(f"/api/chats/{chat}/messages", body),
            Caller(ann).post(f"/api/chats/{services.ids.chat()}/messages", body),
            Caller(ann).post("/api/chats/nope/messages", body),
        ]
        assert [answer[0] for answer in answers] == [404] * 3
        assert len({str(answer[1]) for answer in answers}) == 1
        assert answers[0][1]["code"] == "chat_not_found"

    def test_an_id_taken_by_someone_else_is_409(self, caller: Caller, path: str, bob: UserId) -> None:
        body = {"client_message_id": "id-1", "content": "hello"}
        caller.post(path, body)
        status, problem = Caller(bob).post(path, body)
        assert (status, problem["code"]) == (409, "client_message_id_conflict")

    def test_while_kafka_is_unavailable_it_is_503_fanout_unavailable(
        self, caller: Caller, path: str, services: Services
    ) -> None:
        services.fake_producer.unavailable = True
        status, problem = caller.post(path, {"client_message_id": "id-1", "content": "hello"})
        assert (status, problem["code"]) == (503, "fanout_unavailable")

    def test_while_the_store_is_unavailable_it_is_503_store_unavailable(
        self, caller: Caller, path: str, services: Services
    ) -> None:
        services.wire.fail("BatchGetItem", [StoreUnavailable("no answer")])
        status, problem = caller.post(path, {"client_message_id": "id-1", "content": "hello"})
        assert (status, problem["code"]) == (503, "store_unavailable")

    def test_without_a_token_it_is_401(self, path: str) -> None:
        assert Caller(UserId("nobody")).post(path, {})[0] == 401


class TestReading:
    @pytest.fixture(autouse=True)
    def _talk(self, services: Services, chat: ChatId, ann: UserId) -> None:
        for answer in [services.submit(services.draft(chat, ann, f"id-{number}")) for number in range(120)]:
            answer.result(20)

    def test_without_a_place_it_is_the_newest_hundred(self, caller: Caller, path: str) -> None:
        status, page = caller.get(path)
        assert status == 200
        assert page.keys() == {"messages", "has_more", "latest_sequence"}
        assert [message["sequence"] for message in page["messages"]] == list(range(120, 20, -1))
        assert (page["has_more"], page["latest_sequence"]) == (True, 120)
        assert page["messages"][0].keys() == MESSAGE_FIELDS

    def test_forward_and_backward(self, caller: Caller, path: str) -> None:
        forward = caller.get(path, after_sequence=0, limit=2)[1]
        assert [message["sequence"] for message in forward["messages"]] == [1, 2]
        backward = caller.get(path, before_sequence=3, limit=100)[1]
        assert [message["sequence"] for message in backward["messages"]] == [2, 1]
        assert (forward["has_more"], backward["has_more"]) == (True, False)

    @pytest.mark.parametrize(
        ("query", "field"),
        [
            ({"after_sequence": -1}, "after_sequence"),
            ({"after_sequence": "x"}, "after_sequence"),
            ({"after_sequence": "1.5"}, "after_sequence"),
            ({"after_sequence": 10**40}, "after_sequence"),
            ({"after_sequence": ""}, "after_sequence"),
            ({"before_sequence": 0}, "before_sequence"),
            ({"before_sequence": 2**53}, "before_sequence"),
            ({"before_sequence": 5, "after_sequence": 5}, "before_sequence"),
            ({"limit": 0}, "limit"),
            ({"limit": 101}, "limit"),
            ({"cursor": "x"}, "cursor"),
        ],
    )
    def test_a_bad_query_names_its_field(
        self, caller: Caller, path: str, query: dict[str, str | int], field: str
    ) -> None:
        status, problem = caller.get(path, **query)
        assert status == 422
        assert list(problem["errors"]) == [field]

    def test_one_message(self, caller: Caller, path: str) -> None:
        status, message = caller.get(f"{path}/7")
        assert (status, message["sequence"], message["client_message_id"]) == (200, 7, "id-6")
        assert message.keys() == MESSAGE_FIELDS

    def test_a_place_beyond_the_end_is_message_not_found(self, caller: Caller, path: str) -> None:
        status, problem = caller.get(f"{path}/121")
        assert (status, problem["code"]) == (404, "message_not_found")

    @pytest.mark.parametrize("sequence", ["0", "-1", "x", "1.5", "1e3", "²", "+1", "01", str(2**53), "9" * 60, "%00"])
    def test_what_is_no_sequence_is_422(self, caller: Caller, path: str, sequence: str) -> None:
        status, problem = caller.get(f"{path}/{sequence}")
        assert status == 422
        assert list(problem["errors"]) == ["sequence"]

    def test_a_stranger_gets_404_everywhere(self, services: Services, path: str) -> None:
        stranger = Caller(services.ids.user())
        for place in (path, f"{path}/7", f"{path}/999"):
            status, problem = stranger.get(place)
            assert (status, problem["code"]) == (404, "chat_not_found")
