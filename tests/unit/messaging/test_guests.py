import asyncio
from typing import Any

import orjson
import pytest

from chats.errors import ChatNotFound
from foundation.kernel.ids import ChatId, MessageId, UserId
from messaging.domain import Draft, Message, Sent
from messaging.errors import Overloaded
from messaging.services import codec, guests
from messaging.services.guests import MAX_ANSWERS_BYTES, Guests
from messaging.services.queues import PendingDraft

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class FakeCommitter:
    def __init__(self) -> None:
        self.accepted: list[PendingDraft] = []
        self.is_full = False

    def accept(self, draft: Draft, message_id: MessageId) -> PendingDraft:
        if self.is_full:
            raise Overloaded("too many")
        pending = PendingDraft(draft, message_id, 0.0, asyncio.get_running_loop().create_future())
        self.accepted.append(pending)
        return pending

    def store(self, pending: PendingDraft) -> None:
        for call in pending.when_stored or ():
            call()


def drafts(count: int, content: str = "hello") -> list[Any]:
    made = [Draft(ChatId("chat"), UserId("ann"), f"id-{number}", content) for number in range(count)]
    return [[f"msg-{number}", codec.draft_to_wire(draft)] for number, draft in enumerate(made)]


def sent(pending: PendingDraft, content: str = "hello") -> Sent:
    draft = pending.draft
    message = Message(
        pending.message_id, draft.chat_id, 1, draft.sender_id, draft.client_message_id, content, "t", "at"
    )
    return Sent(message, duplicate=False)


class Home:
    def __init__(self) -> None:
        self.committer = FakeCommitter()
        self.guests = Guests(self.committer)
        self.replies: list[dict[str, Any]] = []

    def receive(self, batch: Any, traceparents: object = None) -> list[PendingDraft]:
        self.guests.receive(
            "batch-1",
            batch,
            reply=lambda parcel: self.replies.append(orjson.loads(parcel)),
            traceparents=traceparents,
        )
        return self.committer.accepted

    @property
    def types(self) -> list[str]:
        return [reply["type"] for reply in self.replies]


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.fixture
async def home(monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr(guests, "STORED_AFTER", 0.0)
    return Home()


class TestABatch:
    async def test_its_drafts_are_committed_in_order_with_their_message_ids(self, home: Home) -> None:
        accepted = home.receive(drafts(3))
        assert [(each.message_id, each.draft.client_message_id) for each in accepted] == [
            ("msg-0", "id-0"),
            ("msg-1", "id-1"),
            ("msg-2", "id-2"),
        ]

    async def test_drafts_have_the_traces_that_came_with_them(self, home: Home) -> None:
        accepted = home.receive(drafts(3), [None, TRACEPARENT, "malformed"])
        assert [each.draft.traceparent for each in accepted] == [None, TRACEPARENT, None]

    @pytest.mark.parametrize("traceparents", [7, [], [TRACEPARENT], {"0": TRACEPARENT}])
    async def test_a_batch_whose_traces_cannot_be_read_is_not_committed_here(
        self, home: Home, traceparents: object
    ) -> None:
        assert home.receive(drafts(2), traceparents) == []
        assert home.types == ["not_home"]

    async def test_stored_is_told_once_when_the_last_draft_is_stored_or_refused(self, home: Home) -> None:
        first, second, third = home.receive(drafts(3))
        home.committer.store(first)
        second.future.set_exception(ChatNotFound())
        await turn()
        assert home.types == ["announced"]
        home.committer.store(third)
        await turn()
        assert home.types == ["announced", "stored"]
        first.future.set_result(sent(first))
        third.future.set_result(sent(third))
        await turn()
        assert home.types == ["announced", "stored", "announced"]

    async def test_stored_is_not_told_where_the_answers_follow_at_once(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(guests, "STORED_AFTER", 60.0)
        accepted = home.receive(drafts(2))
        for pending in accepted:
            home.committer.store(pending)
        await turn()
        for pending in accepted:
            pending.future.set_result(sent(pending))
        await turn()
        assert home.types == ["announced"]

    async def test_answers_that_come_together_leave_together(self, home: Home) -> None:
        accepted = home.receive(drafts(3))
        for pending in accepted:
            pending.future.set_result(sent(pending))
        await turn()
        assert home.types == ["announced"]
        answers = {position: codec.answer_from_wire(answer) for position, answer in home.replies[0]["answers"]}
        assert answers == {number: sent(pending) for number, pending in enumerate(accepted)}

    async def test_answers_that_no_envelope_holds_leave_in_several_parcels(self, home: Home) -> None:
        content = "x" * (MAX_ANSWERS_BYTES // 2)
        for pending in home.receive(drafts(3)):
            pending.future.set_result(sent(pending, content))
        await turn()
        assert home.types == ["announced"] * 3
        assert sorted(position for reply in home.replies for position, _ in reply["answers"]) == [0, 1, 2]

    async def test_a_home_that_is_overloaded_says_so_for_every_draft(self, home: Home) -> None:
        home.committer.is_full = True
        home.receive(drafts(2))
        await turn()
        assert home.types == ["announced"]
        assert [type(codec.answer_from_wire(answer)) for _, answer in home.replies[0]["answers"]] == [Overloaded] * 2

    async def test_an_exception_without_a_name_is_answered_too(self, home: Home) -> None:
        (pending,) = home.receive(drafts(1))
        pending.future.set_exception(ZeroDivisionError())
        await turn()
        assert home.types == ["announced"]


class TestNotHome:
    async def test_a_process_that_shuts_down_is_no_home(self, home: Home) -> None:
        home.guests.close()
        assert home.receive(drafts(1)) == []
        assert home.replies == [{"type": "not_home", "id": "batch-1"}]

    @pytest.mark.parametrize(
        "batch", [None, [], "drafts", [["msg"]], [[1, {}]], [["msg", {"kind": "newer"}]], [*drafts(1), ["msg", {}]]]
    )
    async def test_what_cannot_be_read_as_a_whole_is_not_committed_at_all(self, home: Home, batch: object) -> None:
        assert home.receive(batch) == []
        assert home.types == ["not_home"]
