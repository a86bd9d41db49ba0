import asyncio
from typing import Any

import orjson
import pytest

from chats.errors import ChatNotFound
from foundation.kernel.errors import Overloaded
from foundation.kernel.ids import ChatId, MessageId, UserId
from messaging.domain import Draft, Message, Sent
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


def drafts(count: int, content: str = "hello") -> list[Any]:
    made = [Draft(ChatId("chat"), UserId("ann"), f"id-{number}", content) for number in range(count)]
    return [[f"msg-{number}", codec.draft_to_wire(draft)] for number, draft in enumerate(made)]


def store(*drafts: PendingDraft) -> None:
    """As when a transaction with these drafts is written and Kafka's client has their events."""
    for pending in drafts:
        for call in pending.when_stored or ():
            call()


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

    def receive(self, batch: Any, traceparents: object = None, *, batch_id: str = "batch-1") -> list[PendingDraft]:
        parcel = {"drafts": batch} if traceparents is None else {"drafts": batch, "traceparents": traceparents}
        return self.receive_parcel(batch_id, parcel)

    def receive_after(self, before: str, *, batch_id: str) -> list[PendingDraft]:
        return self.receive_parcel(batch_id, {"after": before, "later_drafts": drafts(1)})

    def receive_parcel(self, batch_id: str, parcel: dict[str, Any]) -> list[PendingDraft]:
        """Returns all drafts that were accepted so far."""
        self.guests.receive(batch_id, parcel, reply=lambda parcel: self.replies.append(orjson.loads(parcel)))
        return self.committer.accepted

    @property
    def types(self) -> list[str]:
        return [reply["type"] for reply in self.replies]


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.fixture
async def home() -> Home:
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

    async def test_drafts_are_answered_as_they_are_done(self, home: Home) -> None:
        first, second = home.receive(drafts(2))
        second.future.set_exception(ChatNotFound())
        await turn()
        first.future.set_result(sent(first))
        await turn()
        assert [[position for position, _ in reply["answers"]] for reply in home.replies] == [[1], [0]]

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


class TestABatchThatIsStoredBeforeKafkaHasIt:
    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guests, "STORED_AFTER", 0.0)

    async def test_its_sender_is_told_once_all_of_it_is_stored(self, home: Home) -> None:
        first, second = home.receive(drafts(2))
        store(first)
        await turn()
        assert home.replies == []
        store(second, first)
        await turn()
        assert home.replies == [{"type": "stored", "id": "batch-1"}]

    async def test_a_draft_that_is_refused_holds_nothing_up(self, home: Home) -> None:
        first, second = home.receive(drafts(2))
        store(first)
        second.future.set_exception(ChatNotFound())
        await turn()
        assert sorted(home.types) == ["announced", "stored"]

    async def test_its_answers_follow(self, home: Home) -> None:
        accepted = home.receive(drafts(2))
        store(*accepted)
        await turn()
        for pending in accepted:
            pending.future.set_result(sent(pending))
        await turn()
        assert home.types == ["stored", "announced"]

    async def test_answers_that_follow_at_once_say_it_alone(self, home: Home) -> None:
        accepted = home.receive(drafts(2))
        store(*accepted)
        for pending in accepted:
            pending.future.set_result(sent(pending))
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


class TestABatchThatFollowsAnother:
    async def test_it_is_committed_behind_that_one(self, home: Home) -> None:
        home.receive(drafts(2))
        assert len(home.receive_after("batch-1", batch_id="batch-2")) == 3
        assert len(home.receive_after("batch-2", batch_id="batch-3")) == 4
        assert home.replies == []

    async def test_it_is_accepted_also_when_that_one_has_its_answers(self, home: Home) -> None:
        (pending,) = home.receive(drafts(1))
        pending.future.set_result(sent(pending))
        await turn()
        assert len(home.receive_after("batch-1", batch_id="batch-2")) == 2

    async def test_it_is_refused_when_that_one_did_not_arrive(self, home: Home) -> None:
        assert home.receive_after("batch-1", batch_id="batch-2") == []
        assert home.receive_after("batch-2", batch_id="batch-3") == []
        assert home.replies == [{"type": "not_home", "id": batch_id} for batch_id in ("batch-2", "batch-3")]

    async def test_it_is_refused_when_that_one_was(self, home: Home) -> None:
        home.receive([["msg", {"kind": "newer"}]])
        assert home.receive_after("batch-1", batch_id="batch-2") == []
        assert home.types == ["not_home", "not_home"]

    async def test_it_is_refused_when_that_one_is_no_longer_remembered(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(guests, "MAX_ACCEPTED", 2)
        for number in (1, 2, 3):
            home.receive(drafts(1), batch_id=f"batch-{number}")
        assert len(home.receive_after("batch-1", batch_id="batch-4")) == 3
        assert len(home.receive_after("batch-2", batch_id="batch-5")) == 4
        assert home.replies == [{"type": "not_home", "id": "batch-4"}]

    @pytest.mark.parametrize("parcel", [{"after": "batch-1", "drafts": drafts(1)}, {"later_drafts": drafts(1)}, {}])
    async def test_a_batch_of_unknown_form_is_refused(self, home: Home, parcel: dict[str, Any]) -> None:
        home.receive(drafts(1))
        assert len(home.receive_parcel("batch-2", parcel)) == 1
        assert home.types == ["not_home"]
