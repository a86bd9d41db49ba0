from collections.abc import Sequence
from typing import Any

from foundation.kernel.ids import ChatId, MessageId, UserId
from foundation.stores.dynamodb.async_database import BATCH_GET_KEYS, TRANSACTION_ITEMS
from messaging.domain import Draft
from messaging.services.queues import DRAFTS_PER_TURN, FULL_BATCH, Batch, ChatQueues, PendingDraft

NO_FUTURE: Any = None
"""The queues never touch a draft's future."""

_numbers = iter(range(1_000_000))


def pending(chat: str, *, sender: str = "ann", client_message_id: str | None = None, content: str = "") -> PendingDraft:
    number = next(_numbers)
    text = content or client_message_id or str(number)
    draft = Draft(ChatId(chat), UserId(sender), client_message_id or f"id-{number}", text)
    return PendingDraft(draft, MessageId(f"msg-{number}"), arrived=0.0, future=NO_FUTURE)


def fill(queues: ChatQueues, chat: str, count: int) -> list[PendingDraft]:
    added = [pending(chat) for _ in range(count)]
    for each in added:
        queues.add(each)
    return added


def read(queues: ChatQueues) -> list[Batch]:
    """Start the next read and finish it with every draft verified."""
    batches = queues.start_reading()
    for batch in batches:
        assert queues.finish_reading(batch, batch.drafts) == []
    return batches


def read_alone(queues: ChatQueues, now: float = 0.0) -> list[PendingDraft]:
    """Start the next chat that shares nothing, and verify every draft that its read holds."""
    queues.end_backoffs(now)
    batch = queues.start_alone()
    if batch is None:
        return []
    assert queues.finish_reading(batch, batch.drafts) == []
    committing = queues.commit_alone(batch)
    assert committing is not None
    assert committing.drafts == batch.drafts
    return list(batch.drafts)


def drafts_of(batches: Sequence[Batch], chat: str) -> list[PendingDraft]:
    return [each for batch in batches if batch.chat_id == chat for each in batch.drafts]


def write_items(batches: Sequence[Batch]) -> int:
    return sum(1 + 2 * len(batch.drafts) for batch in batches)


class TestBatches:
    def test_a_single_draft_goes_at_once(self) -> None:
        queues = ChatQueues()
        (only,) = fill(queues, "a", 1)
        assert drafts_of(read(queues), "a") == [only]
        assert drafts_of(queues.start_committing(), "a") == [only]

    def test_a_hot_chat_alone_fills_a_transaction_with_49_messages(self) -> None:
        queues = ChatQueues()
        added = fill(queues, "hot", 60)
        assert drafts_of(read(queues), "hot") == added[:49]
        batches = queues.start_committing()
        assert drafts_of(batches, "hot") == added[:49]
        assert write_items(batches) == 99

    def test_33_quiet_chats_share_a_transaction(self) -> None:
        queues = ChatQueues()
        for number in range(40):
            fill(queues, f"chat-{number}", 1)
        batches = read(queues)
        assert len(batches) == 33
        assert len(queues.start_committing()) == 33

    def test_no_mix_of_chats_exceeds_the_limits_of_a_transaction_or_of_its_read(self) -> None:
        for sizes in ([100, 1, 1], [9] * 20, [1, 60, 2, 60, 3], [2] * 50):
            queues = ChatQueues()
            for number, size in enumerate(sizes):
                fill(queues, f"chat-{number}", size)
            batches = read(queues)
            messages = sum(len(batch.drafts) for batch in batches)
            assert write_items(batches) <= TRANSACTION_ITEMS
            assert len(batches) + 2 * messages <= BATCH_GET_KEYS
            assert write_items(batches) > TRANSACTION_ITEMS - 3

    def test_reading_pauses_while_a_batch_waits_for_a_transaction(self) -> None:
        queues = ChatQueues()
        fill(queues, "a", 1)
        read(queues)
        fill(queues, "b", 1)
        assert queues.start_reading() == []
        queues.start_committing()
        assert [batch.chat_id for batch in queues.start_reading()] == ["b"]

    def test_the_next_drafts_of_a_chat_gather_while_it_commits(self) -> None:
        queues = ChatQueues()
        fill(queues, "a", 1)
        read(queues)
        (committing,) = queues.start_committing()
        later = fill(queues, "a", FULL_BATCH - 1)
        assert queues.start_reading() == []
        queues.finish_committing(committing)
        assert drafts_of(read(queues), "a") == later

    def test_as_many_as_fill_a_transaction_are_read_while_it_commits_and_wait_for_their_turn(self) -> None:
        queues = ChatQueues()
        fill(queues, "a", 1)
        read(queues)
        (committing,) = queues.start_committing()
        later = fill(queues, "a", FULL_BATCH)
        assert drafts_of(read(queues), "a") == later
        assert queues.start_committing() == []
        queues.finish_committing(committing)
        assert drafts_of(queues.start_committing(), "a") == later


class TestSkippedReads:
    def test_a_draft_that_may_skip_the_read_is_not_read(self) -> None:
        queues = ChatQueues(may_skip_read=lambda _: True)
        added = fill(queues, "a", 2)
        assert queues.start_reading() == []
        assert drafts_of(queues.start_committing(), "a") == added

    def test_no_draft_overtakes_one_that_needs_a_read(self) -> None:
        stranger = pending("a", sender="bob")
        queues = ChatQueues(may_skip_read=lambda each: each is not stranger)
        for each in (before := pending("a"), stranger, after := pending("a")):
            queues.add(each)
        (first,) = queues.start_committing()
        assert first.drafts == (before,)
        assert queues.start_reading() == []
        queues.finish_committing(first)
        assert drafts_of(read(queues), "a") == [stranger, after]

    def test_unread_drafts_that_wait_for_a_transaction_do_not_stop_the_reads_of_others(self) -> None:
        queues = ChatQueues(may_skip_read=lambda each: each.draft.chat_id == "trusted")
        fill(queues, "trusted", 1)
        fill(queues, "new", 1)
        assert [batch.chat_id for batch in queues.start_reading()] == ["new"]

    def test_queued_drafts_skip_the_read_as_soon_as_they_may(self) -> None:
        trusted: set[str] = set()
        queues = ChatQueues(may_skip_read=lambda each: each.draft.chat_id in trusted)
        fill(queues, "a", 1)
        read(queues)
        (committing,) = queues.start_committing()
        later = fill(queues, "a", 2)
        trusted.add("a")
        queues.finish_committing(committing)
        assert queues.start_reading() == []
        assert drafts_of(queues.start_committing(), "a") == later

    def test_a_retried_chat_is_read_even_if_its_drafts_may_skip_reads(self) -> None:
        queues = ChatQueues(may_skip_read=lambda _: True)
        (first,) = fill(queues, "a", 1)
        (batch,) = queues.start_committing()
        queues.retry(batch, failed=(), until=5.0)
        (second,) = fill(queues, "a", 1)
        assert queues.start_committing() == []
        assert read_alone(queues, now=4.0) == []
        assert read_alone(queues, now=5.0) == [first, second]

    def test_a_draft_with_the_id_of_another_senders_pending_draft_is_read(self) -> None:
        queues = ChatQueues(may_skip_read=lambda _: True)
        first, second = pending("a", client_message_id="same"), pending("a", sender="bob", client_message_id="same")
        queues.add(first)
        queues.add(second)
        (batch,) = queues.start_committing()
        assert batch.drafts == (first,)
        queues.finish_committing(batch)
        assert queues.start_committing() == []
        assert drafts_of(read(queues), "a") == [second]

    def test_a_repeat_of_a_draft_that_took_over_an_id_by_a_read_is_read_too(self) -> None:
        """The store refuses a transaction with two items of one key."""
        trusted: set[str] = set()
        queues = ChatQueues(may_skip_read=lambda each: each.draft.sender_id in trusted)
        stranger, first, again = (pending("a", sender=name, client_message_id="same") for name in ("eve", "bob", "bob"))
        queues.add(stranger)
        (reading,) = queues.start_reading()
        queues.add(first)
        queues.finish_reading(reading, ())
        (reading,) = queues.start_reading()
        queues.add(again)
        trusted.add("bob")
        queues.finish_reading(reading, [first])
        (batch,) = queues.start_committing()
        assert batch.drafts == (first,)
        queues.finish_committing(batch)
        assert drafts_of(read(queues), "a") == [again]


class TestFairness:
    def test_a_hot_chat_leaves_room_for_the_quiet_ones_behind_it(self) -> None:
        queues = ChatQueues()
        fill(queues, "hot", 500)
        quiet = fill(queues, "quiet", 1)
        batches = read(queues)
        assert drafts_of(batches, "quiet") == quiet
        assert len(drafts_of(batches, "hot")) > DRAFTS_PER_TURN

    def test_every_chat_is_served_before_any_is_served_again(self) -> None:
        queues = ChatQueues()
        for number in range(100):
            fill(queues, f"chat-{number}", 5 * DRAFTS_PER_TURN)
        served: list[ChatId] = []
        while len(served) < 100:
            served += [batch.chat_id for batch in read(queues)]
            for batch in queues.start_committing():
                queues.finish_committing(batch)
        assert len(set(served[:100])) == 100


class TestOrder:
    def test_a_retried_chat_keeps_its_order_and_commits_alone(self) -> None:
        queues = ChatQueues()
        first = fill(queues, "a", 49)
        read(queues)
        (batch,) = queues.start_committing()
        second = fill(queues, "a", 3)
        read(queues)
        third = fill(queues, "a", 2)
        queues.retry(batch, failed=[], until=1.0)
        fill(queues, "b", 1)
        assert [each.chat_id for each in read(queues)] == ["b"]
        assert read_alone(queues, now=0.5) == []
        assert read_alone(queues, now=1.0) == (first + second + third)[:FULL_BATCH]
        assert [each.chat_id for each in queues.start_committing()] == ["b"]

    def test_the_result_of_a_read_from_an_earlier_epoch_is_discarded(self) -> None:
        queues = ChatQueues()
        (first,) = fill(queues, "a", 1)
        read(queues)
        (committing,) = queues.start_committing()
        later = fill(queues, "a", FULL_BATCH)
        (reading,) = queues.start_reading()
        queues.retry(committing, failed=[], until=0.0)
        assert queues.finish_reading(reading, reading.drafts) is None
        assert read_alone(queues) == [first, *later[:-1]]

    def test_failed_drafts_are_not_retried(self) -> None:
        queues = ChatQueues()
        first, second = fill(queues, "a", 2)
        read(queues)
        (batch,) = queues.start_committing()
        queues.retry(batch, failed=[first], until=0.0)
        assert read_alone(queues) == [second]

    def test_a_draft_that_a_read_refuses_leaves_the_others_in_order(self) -> None:
        queues = ChatQueues()
        first, _, third = fill(queues, "a", 3)
        (batch,) = queues.start_reading()
        queues.finish_reading(batch, [first, third])
        assert drafts_of(queues.start_committing(), "a") == [first, third]


class TestChatsThatShareNothing:
    def test_such_a_chat_is_read_and_committed_by_itself(self) -> None:
        queues = ChatQueues(may_skip_read=lambda _: True, may_share=lambda chat_id: chat_id != "theirs")
        theirs, ours = fill(queues, "theirs", 2), fill(queues, "ours", 1)
        assert queues.start_reading() == []
        assert [list(batch.drafts) for batch in queues.start_committing()] == [ours]
        assert read_alone(queues) == theirs

    def test_the_next_drafts_wait_until_the_first_are_committed(self) -> None:
        queues = ChatQueues(may_share=lambda _: False)
        fill(queues, "a", 1)
        batch = queues.start_alone()
        assert batch is not None
        later = fill(queues, "a", 2 * FULL_BATCH)
        assert queues.start_alone() is None
        queues.finish_reading(batch, batch.drafts)
        committing = queues.commit_alone(batch)
        assert committing is not None
        assert queues.start_alone() is None
        queues.finish_committing(committing)
        assert read_alone(queues) == later[:FULL_BATCH]

    def test_chats_take_turns(self) -> None:
        queues = ChatQueues(may_share=lambda _: False)
        for chat in "abc":
            fill(queues, chat, 60)
        started = [queues.start_alone() for _ in range(4)]
        assert [each and each.chat_id for each in started] == ["a", "b", "c", None]

    def test_drafts_that_skipped_the_read_are_read_once_the_chat_is_anothers(self) -> None:
        is_home = True
        queues = ChatQueues(may_skip_read=lambda _: True, may_share=lambda _: is_home)
        added = fill(queues, "a", 3)
        is_home = False
        queues.update_all()
        assert queues.start_committing() == []
        assert read_alone(queues) == added

    def test_drafts_of_a_running_read_are_read_again_once_the_chat_is_anothers(self) -> None:
        is_home = True
        queues = ChatQueues(may_share=lambda _: is_home)
        added = fill(queues, "a", 3)
        (reading,) = queues.start_reading()
        is_home = False
        queues.update_all()
        assert queues.start_alone() is None
        queues.finish_reading(reading, reading.drafts)
        assert queues.start_committing() == []
        assert read_alone(queues) == added

    def test_a_read_that_refuses_every_draft_commits_nothing(self) -> None:
        queues = ChatQueues(may_share=lambda _: False)
        fill(queues, "a", 2)
        batch = queues.start_alone()
        assert batch is not None
        queues.finish_reading(batch, ())
        assert queues.commit_alone(batch) is None


class TestTheSameIdTwice:
    def test_the_same_senders_repeat_shares_the_answer(self) -> None:
        queues = ChatQueues()
        first, again = (pending("a", client_message_id="same") for _ in range(2))
        queues.add(first)
        queues.add(again)
        assert drafts_of(read(queues), "a") == [first]
        assert first.repeats == [again]

    def test_a_repeat_joins_while_the_first_commits(self) -> None:
        queues = ChatQueues()
        first, again = (pending("a", client_message_id="same") for _ in range(2))
        queues.add(first)
        read(queues)
        queues.start_committing()
        queues.add(again)
        assert first.repeats == [again]
        assert queues.start_reading() == []

    def test_after_the_commit_a_repeat_is_read_on_its_own(self) -> None:
        queues = ChatQueues()
        first, again = (pending("a", client_message_id="same") for _ in range(2))
        queues.add(first)
        read(queues)
        (batch,) = queues.start_committing()
        queues.finish_committing(batch)
        queues.add(again)
        assert first.repeats == []
        assert drafts_of(queues.start_reading(), "a") == [again]

    def test_another_text_under_the_same_id_does_not_share_the_answer(self) -> None:
        queues = ChatQueues()
        first, other = (pending("a", client_message_id="same", content=text) for text in ("one", "two"))
        queues.add(first)
        queues.add(other)
        (batch,) = queues.start_reading()
        assert list(batch.drafts) == [first, other]
        assert queues.finish_reading(batch, batch.drafts) == [other]
        assert first.repeats == []

    def test_another_senders_same_id_is_read_and_then_refused(self) -> None:
        queues = ChatQueues()
        first = pending("a", sender="ann", client_message_id="same")
        other = pending("a", sender="bob", client_message_id="same")
        queues.add(first)
        queues.add(other)
        (batch,) = queues.start_reading()
        assert list(batch.drafts) == [first, other]
        assert queues.finish_reading(batch, batch.drafts) == [other]
        assert drafts_of(queues.start_committing(), "a") == [first]

    def test_repeats_of_a_repeat_share_the_answer_too(self) -> None:
        queues = ChatQueues()
        stranger = pending("a", sender="bob", client_message_id="same")
        first, again, once_more = (pending("a", client_message_id="same") for _ in range(3))
        queues.add(stranger)
        (refusing,) = queues.start_reading()
        queues.add(first)
        queues.finish_reading(refusing, ())
        (batch,) = queues.start_reading()
        queues.add(again)
        queues.add(once_more)
        assert again.repeats == [once_more]
        assert queues.finish_reading(batch, [first]) == []
        queues.start_committing()
        others = fill(queues, "a", FULL_BATCH - 1)
        assert drafts_of(read(queues), "a") == [again, *others]
        assert first.repeats == [again, once_more]
        assert again.repeats == []

    def test_a_draft_that_took_over_an_id_by_a_read_shares_its_answer_with_the_next_repeat(self) -> None:
        queues = ChatQueues()
        stranger = pending("a", sender="bob", client_message_id="same")
        first, again = (pending("a", client_message_id="same") for _ in range(2))
        queues.add(stranger)
        queues.add(first)
        (batch,) = queues.start_reading()
        assert queues.finish_reading(batch, [first]) == []
        queues.add(again)
        assert first.repeats == [again]

    def test_the_same_id_in_another_chat_is_another_message(self) -> None:
        queues = ChatQueues()
        queues.add(pending("a", client_message_id="same"))
        queues.add(pending("b", client_message_id="same"))
        assert len(read(queues)) == 2


class TestDraining:
    def test_every_draft_outside_a_transaction_is_drained(self) -> None:
        queues = ChatQueues()
        fill(queues, "a", 1)
        read(queues)
        (committing,) = queues.start_committing()
        verified = fill(queues, "a", 1)
        read(queues)
        queued = fill(queues, "a", 1) + fill(queues, "b", 2)
        assert set(queues.drain()) == {*verified, *queued}
        queues.finish_committing(committing)
        assert queues.start_reading() == []
        assert queues.start_committing() == []
