"""Handing drafts over: order, answers, and when drafts are taken back. The homes and the committer are fakes."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest

from chats.errors import ChatNotFound
from foundation.kernel.errors import ParleyError
from foundation.kernel.ids import ChatId, MessageId, UserId
from messaging.domain import Draft, Message, Sent
from messaging.services import codec
from messaging.services.handover import MAX_BATCHES, MAX_DRAFTS, HandOver
from messaging.services.homes import Homes
from messaging.services.queues import GUEST, HANDED, OWN, PendingDraft, fallback

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
A, B, C = "a:1", "b:1", "c:1"
CHATS = [ChatId(f"chat-{number}") for number in range(1000)]


class FakeCommitter:
    """Commits nothing by itself: a test answers what is here."""

    def __init__(self) -> None:
        self.here: list[PendingDraft] = []

    def enqueue(self, pending: PendingDraft) -> None:
        self.here.append(pending)

    def list_pending(self, chat_id: ChatId) -> list[PendingDraft]:
        return [pending for pending in self.here if pending.draft.chat_id == chat_id]

    def succeed(self, answered: Sequence[tuple[PendingDraft, Any]]) -> None:
        for pending, answer in answered:
            pending.future.set_result(answer)

    def fail(self, drafts: Sequence[PendingDraft], error: ParleyError) -> None:
        for pending in drafts:
            pending.future.set_exception(error)

    def store(self, *drafts: PendingDraft) -> None:
        """As when a transaction with these drafts is written."""
        for pending in drafts:
            self.here.remove(pending)
            for call in pending.when_stored or ():
                call()


class FakeTransport:
    def __init__(self) -> None:
        self.batches: list[tuple[str, str, list[str]]] = []
        self.after: list[str | None] = []
        self.unreachable: set[str] = set()
        self.traceparents: list[object] = []

    def can_reach(self, name: str) -> bool:
        return name not in self.unreachable

    def send_batch(self, name: str, batch_id: str, parcel: bytes) -> None:
        batch = orjson.loads(parcel)
        self.after.append(batch.get("after"))
        drafts = batch["drafts"] if self.after[-1] is None else batch["later_drafts"]
        self.traceparents.append(batch.get("traceparents"))
        self.batches.append((name, batch_id, [draft["client_message_id"] for _, draft in drafts]))


class Process:
    """The hand-over of process A."""

    def __init__(self) -> None:
        self.homes, self.committer, self.transport = Homes(monotonic=lambda: 0.0), FakeCommitter(), FakeTransport()
        self.handover = HandOver(homes=self.homes, committer=self.committer, transport=self.transport)
        self.list_homes(A, B)
        self.chat = self.chat_of(B)
        self._count = 0

    def list_homes(self, *names: str) -> None:
        self.homes.update(A, names, at=0.0)

    def chat_of(self, home: str) -> ChatId:
        """A chat with this home, by the present list."""
        return next(chat for chat in CHATS if self.homes.find_home(chat) == home)

    def chat_that_moves(self, *, before: Sequence[str], after: Sequence[str]) -> ChatId:
        """A chat whose home is the last of each list. The first list is the present one then."""
        self.list_homes(*after)
        moved = {chat for chat in CHATS if self.homes.find_home(chat) == after[-1]}
        self.list_homes(*before)
        return next(chat for chat in CHATS if chat in moved and self.homes.find_home(chat) == before[-1])

    def pending(self, chat: ChatId | None = None, content: str = "hello") -> PendingDraft:
        self._count += 1
        draft = Draft(chat or self.chat, UserId("ann"), f"id-{self._count}", content)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        return PendingDraft(draft, MessageId(f"msg-{self._count}"), 0.0, future)

    def submit(self, count: int = 1, chat: ChatId | None = None) -> list[PendingDraft]:
        """As the committer does with drafts of clients."""
        drafts = [self.pending(chat) for _ in range(count)]
        for pending in drafts:
            if not self.handover.take(pending):
                self.committer.enqueue(pending)
        return drafts

    @property
    def sent(self) -> list[list[str]]:
        """The client message ids of every batch that was handed over."""
        return [ids for _, _, ids in self.transport.batches]

    def announce(self, drafts: Sequence[PendingDraft], *, batch: int = -1) -> None:
        home, batch_id, ids = self.transport.batches[batch]
        answers = [[ids.index(each.draft.client_message_id), codec.answer_to_wire(sent(each))] for each in drafts]
        self.handover.on_announced(home, batch_id, orjson.loads(orjson.dumps(answers)))

    def tell_stored(self, batch: int) -> None:
        """As a home does when Kafka has not taken the events yet."""
        home, batch_id, _ = self.transport.batches[batch]
        self.handover.on_stored(home, batch_id)

    def batch_id(self, batch: int) -> str:
        return self.transport.batches[batch][1]


def sent(pending: PendingDraft, sequence: int = 7) -> Sent:
    draft = pending.draft
    message = Message(
        pending.message_id, draft.chat_id, sequence, draft.sender_id, draft.client_message_id, draft.content,
        draft.content_type, "2035-01-30T14:30:00.000Z",
    )  # fmt: skip
    return Sent(message, duplicate=False)


def ids(drafts: Sequence[PendingDraft]) -> list[str]:
    return [pending.draft.client_message_id for pending in drafts]


async def turn() -> None:
    """Let the loop run what was scheduled."""
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.fixture
async def process() -> Process:
    return Process()


class TestHandingOver:
    async def test_drafts_of_one_iteration_leave_as_one_batch_for_the_chats_home(self, process: Process) -> None:
        drafts = process.submit(3)
        await turn()
        assert process.sent == [ids(drafts)]
        assert process.transport.batches[0][0] == B
        assert process.committer.here == []
        assert process.transport.traceparents == [None]

    async def test_traces_travel_beside_the_drafts_which_older_homes_read(self, process: Process) -> None:
        plain, traced = process.pending(), process.pending()
        traced.draft = replace(traced.draft, traceparent=TRACEPARENT)
        for pending in (plain, traced):
            assert process.handover.take(pending)
        await turn()
        assert process.transport.traceparents == [[None, TRACEPARENT]]
        assert "traceparent" not in codec.draft_to_wire(traced.draft)

    async def test_a_chat_at_home_here_is_committed_here(self, process: Process) -> None:
        drafts = process.submit(2, process.chat_of(A))
        await turn()
        assert process.committer.here == drafts
        assert [pending.path for pending in drafts] == [OWN, OWN]
        assert process.sent == []

    async def test_the_next_batch_does_not_wait_for_the_answers_of_the_first(self, process: Process) -> None:
        first = process.submit(2)
        await turn()
        second = process.submit(3)
        await turn()
        assert process.sent == [ids(first), ids(second)]

    async def test_a_batch_names_the_one_before_it_that_has_no_answer_yet(self, process: Process) -> None:
        batches = []
        for _ in range(3):
            batches.append(process.submit())
            await turn()
        process.announce(batches[2], batch=2)
        process.submit()
        await turn()
        for number in (0, 1):
            process.announce(batches[number], batch=number)
        process.submit()
        await turn()
        expected = [None, process.batch_id(0), process.batch_id(1), process.batch_id(1), process.batch_id(3)]
        assert process.transport.after == expected

    async def test_a_batch_after_the_last_answer_names_none(self, process: Process) -> None:
        first = process.submit(2)
        await turn()
        process.announce(first)
        process.submit()
        await turn()
        assert process.transport.after == [None, None]

    async def test_drafts_beyond_the_batches_under_way_gather_until_one_has_its_answers(self, process: Process) -> None:
        batches = []
        for _ in range(MAX_BATCHES):
            batches.append(process.submit(2))
            await turn()
        gathered = process.submit() + process.submit()
        await turn()
        assert process.sent == [ids(batch) for batch in batches]
        process.announce(batches[0][:1], batch=0)
        await turn()
        assert len(process.sent) == MAX_BATCHES
        process.announce(batches[0][1:], batch=0)
        await turn()
        assert process.sent[MAX_BATCHES:] == [ids(gathered)]

    async def test_a_batch_holds_as_many_drafts_as_a_transaction(self, process: Process) -> None:
        drafts = process.submit(MAX_DRAFTS + 5)
        await turn()
        assert process.sent == [ids(drafts[:MAX_DRAFTS]), ids(drafts[MAX_DRAFTS:])]

    async def test_a_batch_stays_below_the_size_of_an_envelope(self, process: Process) -> None:
        drafts = [process.pending(content="\x01" * 4000) for _ in range(20)]
        for pending in drafts:
            assert process.handover.take(pending)
        await turn()
        assert 1 < len(process.sent[0]) < 20
        assert [each for batch in process.sent for each in batch] == ids(drafts)

    async def test_a_draft_that_no_envelope_holds_is_committed_here_before_the_next_leaves(
        self, process: Process
    ) -> None:
        huge, small = process.pending(content="x" * 300_000), process.pending()
        for pending in (huge, small):
            assert process.handover.take(pending)
        await turn()
        assert process.committer.here == [huge]
        assert process.sent == []
        process.committer.store(huge)
        await turn()
        assert process.sent == [ids([small])]

    async def test_such_a_draft_waits_for_the_batches_before_it(self, process: Process) -> None:
        first, huge = process.submit(2), process.pending(content="x" * 300_000)
        assert process.handover.take(huge)
        await turn()
        assert process.committer.here == []
        process.announce(first)
        await turn()
        assert process.committer.here == [huge]

    async def test_chats_do_not_wait_for_each_other(self, process: Process) -> None:
        other = next(chat for chat in CHATS if chat != process.chat and process.homes.find_home(chat) == B)
        process.submit()
        await turn()
        drafts = process.submit(1, other)
        await turn()
        assert process.sent[1] == ids(drafts)


class TestAnswers:
    async def test_announced_answers_the_sender(self, process: Process) -> None:
        (pending,) = process.submit()
        await turn()
        assert not pending.future.done()
        process.announce([pending])
        assert pending.future.result() == sent(pending)
        assert pending.path == HANDED

    async def test_an_error_is_passed_on_and_not_retried(self, process: Process) -> None:
        (pending,) = process.submit()
        await turn()
        home, batch_id, _ = process.transport.batches[0]
        error = ChatNotFound("gone", retry_after=3.0)
        process.handover.on_announced(home, batch_id, [[0, codec.answer_to_wire(error)]])
        with pytest.raises(ChatNotFound, match="gone") as refused:
            pending.future.result()
        assert refused.value.retry_after == 3.0
        assert process.committer.here == []

    async def test_answers_to_a_finished_batch_are_ignored(self, process: Process) -> None:
        drafts = process.submit(2)
        await turn()
        process.announce(drafts)
        process.announce(drafts)
        assert all(pending.future.done() for pending in drafts)

    async def test_answers_of_another_process_are_ignored(self, process: Process) -> None:
        (pending,) = process.submit()
        await turn()
        _, batch_id, _ = process.transport.batches[0]
        process.handover.on_announced(C, batch_id, [[0, codec.answer_to_wire(sent(pending))]])
        process.handover.on_not_home(C, batch_id)
        assert not pending.future.done()
        assert process.committer.here == []

    async def test_an_answer_that_cannot_be_read_takes_the_batch_back(self, process: Process) -> None:
        (pending,) = process.submit()
        await turn()
        home, batch_id, _ = process.transport.batches[0]
        process.handover.on_announced(home, batch_id, [[0, {"a newer answer": {}}]])
        assert process.committer.here == [pending]


class TestABatchThatIsStored:
    async def test_no_later_batch_waits_for_its_answers(self, process: Process) -> None:
        batches = []
        for number in range(3 * MAX_BATCHES):
            batches.append(process.submit())
            await turn()
            process.tell_stored(number)
        assert process.sent == [ids(batch) for batch in batches]
        assert not any(pending.future.done() for batch in batches for pending in batch)
        for number, batch in enumerate(batches):
            process.announce(batch, batch=number)
        assert all(pending.future.done() for batch in batches for pending in batch)

    async def test_what_gathered_behind_it_leaves(self, process: Process) -> None:
        for _ in range(MAX_BATCHES):
            process.submit()
            await turn()
        gathered = process.submit(2)
        await turn()
        for _ in range(2):
            process.tell_stored(0)
        await turn()
        assert process.sent[MAX_BATCHES:] == [ids(gathered)]

    async def test_a_batch_names_one_before_it_that_is_not_stored(self, process: Process) -> None:
        for _ in range(3):
            process.submit()
            await turn()
        process.tell_stored(2)
        process.submit()
        await turn()
        for number in (0, 1, 3):
            process.tell_stored(number)
        process.submit()
        await turn()
        assert process.transport.after[3:] == [process.batch_id(1), None]

    @pytest.mark.parametrize("reason", ["unknown_answer", "left", "subscription"])
    async def test_it_is_taken_back_when_its_answers_are_lost(self, process: Process, reason: str) -> None:
        drafts = process.submit(2)
        await turn()
        process.tell_stored(0)
        home, batch_id, _ = process.transport.batches[0]
        match reason:
            case "unknown_answer":
                process.handover.on_announced(home, batch_id, [[0, {"a newer answer": {}}]])
            case "left":
                process.list_homes(A, C)
            case "subscription":
                process.handover.on_subscription_lost()
        assert process.committer.here == drafts
        assert [(pending.path, pending.attempts) for pending in drafts] == [(fallback(reason), 1)] * 2
        process.announce(drafts)
        assert not drafts[0].future.done()

    async def test_it_stays_when_the_batches_behind_it_are_taken_back(self, process: Process) -> None:
        first = process.submit()
        await turn()
        process.tell_stored(0)
        later = process.submit() + process.submit()
        await turn()
        process.handover.on_not_home(B, process.batch_id(1))
        assert process.committer.here == later
        process.announce(first, batch=0)
        assert first[0].future.done()

    async def test_drafts_for_a_new_home_do_not_wait_for_its_answers(self, process: Process) -> None:
        chat = process.chat_that_moves(before=[A, B], after=[A, B, C])
        first = process.submit(2, chat)
        await turn()
        process.tell_stored(0)
        process.list_homes(A, B, C)
        later = process.submit(2, chat)
        await turn()
        assert process.transport.batches[1:] == [(C, process.batch_id(1), ids(later))]
        process.announce(first, batch=0)
        process.announce(later, batch=1)
        assert all(pending.future.done() for pending in first + later)

    async def test_it_is_given_up_at_shutdown(self, process: Process) -> None:
        drafts = process.submit()
        await turn()
        process.tell_stored(0)
        assert process.handover.drain() == drafts


class TestTakingBack:
    @pytest.mark.parametrize("reason", ["unreachable", "not_home", "left", "subscription"])
    async def test_the_whole_batch_is_committed_here_in_order_and_read_first(
        self, process: Process, reason: str
    ) -> None:
        drafts = process.submit(3)
        await turn()
        home, batch_id, _ = process.transport.batches[0]
        match reason:
            case "unreachable":
                process.handover.on_unreachable([batch_id])
            case "not_home":
                process.handover.on_not_home(home, batch_id)
            case "left":
                process.list_homes(A, C)
            case "subscription":
                process.handover.on_subscription_lost()
        assert process.committer.here == drafts
        assert [pending.path for pending in drafts] == [fallback(reason)] * 3
        # A draft with an attempt behind it is read before it is written.
        assert [pending.attempts for pending in drafts] == [1, 1, 1]

    @pytest.mark.parametrize("refused", [0, 1, 2])
    async def test_every_batch_of_the_chat_is_taken_back_in_order(self, process: Process, refused: int) -> None:
        """Also those before it, which the home may have: otherwise what is committed here could overtake them."""
        drafts = []
        for _ in range(3):
            drafts += process.submit(2)
            await turn()
        process.announce(drafts[:1], batch=0)
        process.handover.on_not_home(B, process.batch_id(refused))
        assert process.committer.here == drafts[1:]
        for batch in range(3):
            process.handover.on_not_home(B, process.batch_id(batch))
        assert process.committer.here == drafts[1:]

    async def test_batches_of_other_chats_stay_at_the_home(self, process: Process) -> None:
        other = next(chat for chat in CHATS if chat != process.chat and process.homes.find_home(chat) == B)
        drafts = process.submit()
        process.submit(1, other)
        await turn()
        process.handover.on_not_home(B, process.batch_id(0))
        assert process.committer.here == drafts

    async def test_later_drafts_wait_until_those_taken_back_are_stored_or_refused(self, process: Process) -> None:
        first = process.submit(2)
        await turn()
        process.handover.on_unreachable([process.batch_id(0)])
        second = process.submit(2)
        await turn()
        third = process.submit()
        await turn()
        assert process.committer.here == first
        process.committer.store(first[0])
        await turn()
        assert process.sent == [ids(first)]
        process.committer.fail([first[1]], ChatNotFound())
        await turn()
        assert process.sent == [ids(first), ids(second + third)]
        assert process.transport.after == [None, None]

    async def test_answers_after_that_are_ignored(self, process: Process) -> None:
        (pending,) = process.submit()
        await turn()
        process.handover.on_subscription_lost()
        process.announce([pending])
        assert not pending.future.done()

    async def test_an_epoch_that_ends_takes_back_what_was_handed_to_it(self, process: Process) -> None:
        drafts = process.submit(2)
        await turn()
        process.list_homes(A, "b:2")
        assert process.committer.here == drafts

    async def test_a_list_that_still_names_the_home_takes_nothing_back(self, process: Process) -> None:
        process.submit(2)
        await turn()
        process.list_homes(A, B, C)
        assert process.committer.here == []


class TestHomesThatMove:
    async def test_drafts_wait_for_earlier_ones_that_are_being_committed_here(self, process: Process) -> None:
        process.list_homes(A)
        earlier = process.submit(2)
        process.list_homes(A, B)
        later = process.submit(2)
        await turn()
        assert process.sent == []
        process.committer.store(*earlier)
        await turn()
        assert process.sent == [ids(later)]

    async def test_drafts_of_other_processes_are_not_waited_for(self, process: Process) -> None:
        guest = process.pending()
        guest.path = GUEST
        process.committer.enqueue(guest)
        drafts = process.submit()
        await turn()
        assert process.sent == [ids(drafts)]

    async def test_nor_unless_a_client_sent_them_again_here(self, process: Process) -> None:
        guest = process.pending()
        guest.path = GUEST
        guest.repeats.append(process.pending())
        process.committer.enqueue(guest)
        drafts = process.submit()
        await turn()
        assert process.sent == []
        process.committer.store(guest)
        await turn()
        assert process.sent == [ids(drafts)]

    async def test_what_waits_is_committed_here_once_the_home_is_here(self, process: Process) -> None:
        first = process.submit()
        await turn()
        process.list_homes(A)
        second = process.submit(2)
        await turn()
        assert process.committer.here == first
        process.committer.store(*first)
        await turn()
        assert process.committer.here == second
        third = process.submit()
        assert process.committer.here == second + third

    async def test_drafts_for_a_new_home_wait_for_the_answers_of_the_former_one(self, process: Process) -> None:
        chat = process.chat_that_moves(before=[A, B], after=[A, B, C])
        first = process.submit(2, chat)
        await turn()
        process.list_homes(A, B, C)
        later = process.submit(2, chat)
        await turn()
        assert process.committer.here == []
        assert process.sent == [ids(first)]
        process.announce(first)
        await turn()
        assert process.transport.batches[1:] == [(C, process.batch_id(1), ids(later))]
        assert process.transport.after == [None, None]

    async def test_what_waits_goes_to_the_new_home(self, process: Process) -> None:
        process.list_homes(A, B, C)
        chat = process.chat_of(C)
        process.submit(1, chat)
        await turn()
        later = process.submit(2, chat)
        process.list_homes(A, B)
        home = process.homes.find_home(chat)
        process.committer.store(*process.committer.here)
        await turn()
        assert [*process.sent[1:], ids(process.committer.here)] == ([ids(later), []] if home == B else [ids(later)])

    async def test_a_home_whose_key_is_not_known_is_not_handed_anything(self, process: Process) -> None:
        process.transport.unreachable.add(B)
        drafts = process.submit()
        await turn()
        assert process.committer.here == drafts
        assert drafts[0].path == fallback("unknown_key")

    async def test_a_process_off_the_list_commits_here_and_says_why(self, process: Process) -> None:
        process.homes.withdraw()
        drafts = process.submit()
        assert process.committer.here == drafts
        assert drafts[0].path == fallback("not_listed")

    async def test_what_waits_while_a_process_leaves_is_committed_here_and_says_why(self, process: Process) -> None:
        process.submit()
        process.homes.withdraw()
        await turn()
        assert [pending.path for pending in process.committer.here] == [fallback("not_listed")]

    async def test_a_process_without_a_list_commits_here_and_says_why(self, process: Process) -> None:
        process.homes.update(A, [B, C], at=-100.0)
        (pending,) = process.submit()
        await turn()
        assert process.committer.here == [pending]
        assert pending.path == fallback("no_list")

    async def test_a_process_that_never_had_a_list_commits_here_and_says_why(self) -> None:
        committer = FakeCommitter()
        handover = HandOver(homes=Homes(is_alone=False), committer=committer, transport=FakeTransport())
        pending = Process().pending()
        assert handover.is_active
        assert not handover.take(pending)
        assert pending.path == fallback("no_list")

    async def test_a_process_that_knows_of_no_other_is_not_asked(self, process: Process) -> None:
        assert process.handover.is_active
        process.list_homes(A)
        assert not process.handover.is_active

    async def test_nor_is_one_that_has_taken_back_what_was_under_way_when_the_others_left(
        self, process: Process
    ) -> None:
        drafts = process.submit(2)
        await turn()
        process.list_homes(A)
        assert process.handover.is_active
        later = process.submit()
        process.committer.store(*drafts)
        await turn()
        assert process.committer.here == later
        assert not process.handover.is_active


class TestShutdown:
    async def test_every_draft_without_an_answer_is_given_up(self, process: Process) -> None:
        first = process.submit(2)
        await turn()
        second = process.submit()
        assert process.handover.drain() == first + second
        process.announce(first)
        assert not first[0].future.done()
