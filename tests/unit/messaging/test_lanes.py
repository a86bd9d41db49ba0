from collections.abc import Sequence

from foundation.kernel.ids import ChatId, MessageId, UserId
from foundation.stores.dynamodb.database import BATCH_GET_KEYS, TRANSACTION_ITEMS
from messaging.domain import Draft
from messaging.services.lanes import FULL, TURN, Entry, Lanes, Part

_numbers = iter(range(1_000_000))


def entry(chat: str, *, sender: str = "ann", client_message_id: str | None = None, content: str = "") -> Entry:
    number = next(_numbers)
    text = content or str(number)
    draft = Draft(ChatId(chat), UserId(sender), client_message_id or f"id-{number}", text)
    return Entry(draft, MessageId(f"msg-{number}"), arrived=0.0)


def fill(lanes: Lanes, chat: str, count: int) -> list[Entry]:
    added = [entry(chat) for _ in range(count)]
    for each in added:
        lanes.add(each)
    return added


def read(lanes: Lanes, now: float = 0.0) -> list[Part]:
    """Read the next batch and find everything in order."""
    parts = lanes.start_reading(now)
    for part in parts:
        assert lanes.finish_reading(part, part.entries) == []
    return parts


def entries(parts: Sequence[Part], chat: str) -> list[Entry]:
    return [each for part in parts if part.chat_id == chat for each in part.entries]


def write_items(parts: Sequence[Part]) -> int:
    return sum(1 + 2 * len(part.entries) for part in parts)


class TestBatches:
    def test_a_single_draft_goes_at_once(self) -> None:
        lanes = Lanes()
        (only,) = fill(lanes, "a", 1)
        assert entries(read(lanes), "a") == [only]
        assert entries(lanes.start_committing(), "a") == [only]

    def test_a_hot_chat_alone_fills_a_transaction_with_49_messages(self) -> None:
        lanes = Lanes()
        added = fill(lanes, "hot", 60)
        assert entries(read(lanes), "hot") == added[:49]
        parts = lanes.start_committing()
        assert entries(parts, "hot") == added[:49]
        assert write_items(parts) == 99

    def test_33_quiet_chats_share_a_transaction(self) -> None:
        lanes = Lanes()
        for number in range(40):
            fill(lanes, f"chat-{number}", 1)
        parts = read(lanes)
        assert len(parts) == 33
        assert len(lanes.start_committing()) == 33

    def test_no_mix_of_chats_exceeds_the_limits_of_a_transaction_or_of_its_read(self) -> None:
        for sizes in ([100, 1, 1], [9] * 20, [1, 60, 2, 60, 3], [2] * 50):
            lanes = Lanes()
            for number, size in enumerate(sizes):
                fill(lanes, f"chat-{number}", size)
            parts = read(lanes)
            messages = sum(len(part.entries) for part in parts)
            assert write_items(parts) <= TRANSACTION_ITEMS
            assert len(parts) + 2 * messages <= BATCH_GET_KEYS
            assert write_items(parts) > TRANSACTION_ITEMS - 3

    def test_reading_pauses_while_a_batch_waits_for_a_transaction(self) -> None:
        lanes = Lanes()
        fill(lanes, "a", 1)
        read(lanes)
        fill(lanes, "b", 1)
        assert lanes.start_reading(0.0) == []
        lanes.start_committing()
        assert [part.chat_id for part in lanes.start_reading(0.0)] == ["b"]

    def test_the_next_drafts_of_a_chat_gather_while_it_commits(self) -> None:
        lanes = Lanes()
        fill(lanes, "a", 1)
        read(lanes)
        (committing,) = lanes.start_committing()
        later = fill(lanes, "a", FULL - 1)
        assert lanes.start_reading(0.0) == []
        lanes.finish_committing(committing)
        assert entries(read(lanes), "a") == later

    def test_as_many_as_fill_a_transaction_are_read_while_it_commits_and_wait_for_their_turn(self) -> None:
        lanes = Lanes()
        fill(lanes, "a", 1)
        read(lanes)
        (committing,) = lanes.start_committing()
        later = fill(lanes, "a", FULL)
        assert entries(read(lanes), "a") == later
        assert lanes.start_committing() == []
        lanes.finish_committing(committing)
        assert entries(lanes.start_committing(), "a") == later


class TestWhoIsKnown:
    def test_a_known_draft_is_not_read(self) -> None:
        lanes = Lanes(is_known=lambda _: True)
        added = fill(lanes, "a", 2)
        assert lanes.start_reading(0.0) == []
        assert entries(lanes.start_committing(), "a") == added

    def test_nobody_overtakes_one_who_has_to_be_read(self) -> None:
        stranger = entry("a", sender="bob")
        lanes = Lanes(is_known=lambda each: each is not stranger)
        for each in (before := entry("a"), stranger, after := entry("a")):
            lanes.add(each)
        (first,) = lanes.start_committing()
        assert first.entries == (before,)
        assert lanes.start_reading(0.0) == []
        lanes.finish_committing(first)
        assert entries(read(lanes), "a") == [stranger, after]

    def test_known_drafts_that_wait_for_a_transaction_do_not_keep_others_from_being_read(self) -> None:
        lanes = Lanes(is_known=lambda each: each.draft.chat_id == "known")
        fill(lanes, "known", 1)
        fill(lanes, "new", 1)
        assert [part.chat_id for part in lanes.start_reading(0.0)] == ["new"]

    def test_drafts_become_known_while_they_wait(self) -> None:
        known: set[str] = set()
        lanes = Lanes(is_known=lambda each: each.draft.chat_id in known)
        fill(lanes, "a", 1)
        read(lanes)
        (committing,) = lanes.start_committing()
        later = fill(lanes, "a", 2)
        known.add("a")
        lanes.finish_committing(committing)
        assert lanes.start_reading(0.0) == []
        assert entries(lanes.start_committing(), "a") == later

    def test_a_chat_that_stumbled_is_read_again_whoever_is_known(self) -> None:
        lanes = Lanes(is_known=lambda _: True)
        (first,) = fill(lanes, "a", 1)
        (part,) = lanes.start_committing()
        lanes.stumble(part, failed=(), until=5.0)
        (second,) = fill(lanes, "a", 1)
        assert lanes.start_committing() == []
        assert entries(read(lanes, now=5.0), "a") == [first, second]

    def test_an_id_that_another_sender_has_under_way_is_read(self) -> None:
        lanes = Lanes(is_known=lambda _: True)
        first, second = entry("a", client_message_id="same"), entry("a", sender="bob", client_message_id="same")
        lanes.add(first)
        lanes.add(second)
        (part,) = lanes.start_committing()
        assert part.entries == (first,)
        lanes.finish_committing(part)
        assert lanes.start_committing() == []
        assert entries(read(lanes), "a") == [second]

    def test_nor_does_anybody_join_one_who_got_the_id_by_being_read(self) -> None:
        """A stranger had it first: two of one id in a transaction would make the store refuse all that is in it."""
        known: set[str] = set()
        lanes = Lanes(is_known=lambda each: each.draft.sender_id in known)
        stranger, first, again = (entry("a", sender=name, client_message_id="same") for name in ("eve", "bob", "bob"))
        lanes.add(stranger)
        (reading,) = lanes.start_reading(0.0)
        lanes.add(first)
        lanes.finish_reading(reading, ())
        (reading,) = lanes.start_reading(0.0)
        lanes.add(again)
        known.add("bob")
        lanes.finish_reading(reading, [first])
        (part,) = lanes.start_committing()
        assert part.entries == (first,)
        lanes.finish_committing(part)
        assert entries(read(lanes), "a") == [again]


class TestFairness:
    def test_a_hot_chat_leaves_room_for_the_quiet_ones_behind_it(self) -> None:
        lanes = Lanes()
        fill(lanes, "hot", 500)
        quiet = fill(lanes, "quiet", 1)
        parts = read(lanes)
        assert entries(parts, "quiet") == quiet
        assert len(entries(parts, "hot")) > TURN

    def test_every_chat_is_served_before_any_is_served_again(self) -> None:
        lanes = Lanes()
        for number in range(100):
            fill(lanes, f"chat-{number}", 5 * TURN)
        served: list[ChatId] = []
        while len(served) < 100:
            served += [part.chat_id for part in read(lanes)]
            for part in lanes.start_committing():
                lanes.finish_committing(part)
        assert len(set(served[:100])) == 100


class TestOrder:
    def test_a_chat_that_stumbles_goes_back_in_order_and_alone(self) -> None:
        lanes = Lanes()
        first = fill(lanes, "a", 49)
        read(lanes)
        (part,) = lanes.start_committing()
        second = fill(lanes, "a", 3)
        read(lanes)
        third = fill(lanes, "a", 2)
        lanes.stumble(part, failed=[], until=1.0)
        fill(lanes, "b", 1)
        assert [each.chat_id for each in read(lanes, now=0.5)] == ["b"]
        (other,) = lanes.start_committing()
        lanes.finish_committing(other)
        fill(lanes, "c", 1)
        again = read(lanes, now=1.0)
        assert entries(again, "a") == (first + second + third)[: len(entries(again, "a"))]
        commits = [[each.chat_id for each in lanes.start_committing()] for _ in range(2)]
        assert sorted(commits) == [["a"], ["c"]]

    def test_a_read_that_began_before_a_stumble_is_thrown_away(self) -> None:
        lanes = Lanes()
        (first,) = fill(lanes, "a", 1)
        read(lanes)
        (committing,) = lanes.start_committing()
        later = fill(lanes, "a", FULL)
        (reading,) = lanes.start_reading(0.0)
        lanes.stumble(committing, failed=[], until=0.0)
        assert lanes.finish_reading(reading, reading.entries) is None
        assert entries(read(lanes), "a") == [first, *later[:-1]]

    def test_those_who_failed_are_not_tried_again(self) -> None:
        lanes = Lanes()
        first, second = fill(lanes, "a", 2)
        read(lanes)
        (part,) = lanes.start_committing()
        lanes.stumble(part, failed=[first], until=0.0)
        assert entries(read(lanes), "a") == [second]

    def test_a_draft_that_was_let_go_of_by_a_read_leaves_the_others_in_order(self) -> None:
        lanes = Lanes()
        first, _, third = fill(lanes, "a", 3)
        (part,) = lanes.start_reading(0.0)
        lanes.finish_reading(part, [first, third])
        assert entries(lanes.start_committing(), "a") == [first, third]


class TestTheSameIdTwice:
    def test_the_same_senders_repeat_shares_the_answer(self) -> None:
        lanes = Lanes()
        first, again = (entry("a", client_message_id="same") for _ in range(2))
        lanes.add(first)
        lanes.add(again)
        assert entries(read(lanes), "a") == [first]
        assert first.repeats == [again]

    def test_a_repeat_joins_while_the_first_commits(self) -> None:
        lanes = Lanes()
        first, again = (entry("a", client_message_id="same") for _ in range(2))
        lanes.add(first)
        read(lanes)
        lanes.start_committing()
        lanes.add(again)
        assert first.repeats == [again]
        assert lanes.start_reading(0.0) == []

    def test_after_the_commit_a_repeat_is_read_on_its_own(self) -> None:
        lanes = Lanes()
        first, again = (entry("a", client_message_id="same") for _ in range(2))
        lanes.add(first)
        read(lanes)
        (part,) = lanes.start_committing()
        lanes.finish_committing(part)
        lanes.add(again)
        assert first.repeats == []
        assert entries(lanes.start_reading(0.0), "a") == [again]

    def test_another_senders_same_id_is_read_and_then_refused(self) -> None:
        lanes = Lanes()
        first = entry("a", sender="ann", client_message_id="same")
        other = entry("a", sender="bob", client_message_id="same")
        lanes.add(first)
        lanes.add(other)
        (part,) = lanes.start_reading(0.0)
        assert list(part.entries) == [first, other]
        assert lanes.finish_reading(part, part.entries) == [other]
        assert entries(lanes.start_committing(), "a") == [first]

    def test_repeats_of_a_repeat_share_the_answer_too(self) -> None:
        lanes = Lanes()
        stranger = entry("a", sender="bob", client_message_id="same")
        first, again, once_more = (entry("a", client_message_id="same") for _ in range(3))
        lanes.add(stranger)
        (refusing,) = lanes.start_reading(0.0)
        lanes.add(first)
        lanes.finish_reading(refusing, ())
        (part,) = lanes.start_reading(0.0)
        lanes.add(again)
        lanes.add(once_more)
        assert again.repeats == [once_more]
        assert lanes.finish_reading(part, [first]) == []
        lanes.start_committing()
        others = fill(lanes, "a", FULL - 1)
        assert entries(read(lanes), "a") == [again, *others]
        assert first.repeats == [again, once_more]
        assert again.repeats == []

    def test_who_got_the_id_by_being_read_shares_the_answer_with_the_next(self) -> None:
        lanes = Lanes()
        stranger = entry("a", sender="bob", client_message_id="same")
        first, again = (entry("a", client_message_id="same") for _ in range(2))
        lanes.add(stranger)
        lanes.add(first)
        (part,) = lanes.start_reading(0.0)
        assert lanes.finish_reading(part, [first]) == []
        lanes.add(again)
        assert first.repeats == [again]

    def test_the_same_id_in_another_chat_is_another_message(self) -> None:
        lanes = Lanes()
        lanes.add(entry("a", client_message_id="same"))
        lanes.add(entry("b", client_message_id="same"))
        assert len(read(lanes)) == 2


class TestDraining:
    def test_everything_outside_a_transaction_comes_out(self) -> None:
        lanes = Lanes()
        fill(lanes, "a", 1)
        read(lanes)
        (committing,) = lanes.start_committing()
        verified = fill(lanes, "a", 1)
        read(lanes)
        queued = fill(lanes, "a", 1) + fill(lanes, "b", 2)
        assert set(lanes.drain()) == {*verified, *queued}
        lanes.finish_committing(committing)
        assert lanes.start_reading(0.0) == []
        assert lanes.start_committing() == []
