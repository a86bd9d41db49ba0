import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.frames import Drafts, ack, arrivals, moment, sequences, sync_request
from bench.timeline import Account, Timeline, WrongDelivery
from delivery.gateway.frames import Ack, SendMessage, SyncRequest, read
from foundation.kernel.ids import ChatId


def message(sequence: int, due: float = 1.5) -> bytes:
    body = {"type": "message", "sequence": sequence, "client_message_id": f"1.{int(due * 10**6)}", "content": "x"}
    return orjson.dumps(body)


def batch(*numbers: int) -> bytes:
    return b'{"type":"message_batch","messages":[' + b",".join(map(message, numbers)) + b"]}"


class TestFrames:
    def test_the_server_understands_a_draft(self) -> None:
        request = read(Drafts("c-1").next(12.5).decode())
        assert request == SendMessage("1.12500000", ChatId("c-1"), "x" * 120, "text/plain")

    def test_no_two_drafts_have_the_same_id(self) -> None:
        drafts = Drafts("c-1")
        assert drafts.next(1.0) != drafts.next(1.0)

    @given(due=st.floats(0, 10**8))
    @example(due=16_500.000001)
    def test_a_moment_is_the_same_after_its_journey(self, due: float) -> None:
        """A machine that has run for five hours has moments that are cut off one too short."""
        arrived = moment(due) / 10**6
        assert moment(arrived) == moment(due)
        assert f"1.{moment(due)}".encode() in Drafts("c-1").next(due)

    def test_the_server_understands_the_other_frames(self) -> None:
        assert read(ack("c-1", 7).decode()) == Ack(ChatId("c-1"), 7)
        assert read(sync_request("c-1", 7, limit=50).decode()) == SyncRequest(ChatId("c-1"), 7, 50)

    def test_every_message_of_a_batch_is_read(self) -> None:
        assert sequences(batch(4, 5)) == [4, 5]
        assert list(arrivals(batch(4, 5))) == [(4, 1.5), (5, 1.5)]

    def test_a_message_of_somebody_else_is_not_taken_for_ours(self) -> None:
        with pytest.raises(ValueError, match="not a frame"):
            arrivals(b'{"type":"message","sequence":1,"client_message_id":"hello"}')


class TestTimeline:
    def test_all_in_order_is_right(self) -> None:
        timeline = Timeline()
        timeline.message(message(4), 2.0)
        timeline.message(batch(5, 6), 3.0)
        account = timeline.account(after=3, latest=6)
        assert account == Account(received=3)
        account.require_right()
        assert [(sequence, at) for sequence, _, at in timeline.live()] == [(4, 2.0), (5, 3.0), (6, 3.0)]

    def test_own_messages_and_synced_ones_are_not_missing(self) -> None:
        timeline = Timeline()
        timeline.message(message(1), 2.0)
        timeline.ack(message(2), 2.0)
        timeline.synced(batch(3, 4))
        assert timeline.account(after=0, latest=4).missing == 0

    def test_a_gap_fails_the_run(self) -> None:
        timeline = Timeline()
        timeline.message(batch(1, 3), 2.0)
        account = timeline.account(after=0, latest=4)
        assert account.missing == 2
        with pytest.raises(WrongDelivery, match="2 missing in 1 timelines"):
            account.require_right()

    def test_disorder_fails_the_run(self) -> None:
        timeline = Timeline()
        timeline.message(batch(1, 3, 2), 2.0)
        account = timeline.account(after=0, latest=3)
        assert (account.disordered, account.missing) == (1, 0)
        with pytest.raises(WrongDelivery, match="1 out of order"):
            account.require_right()

    def test_a_repeat_is_counted_and_allowed(self) -> None:
        timeline = Timeline()
        timeline.message(batch(1, 2), 2.0)
        timeline.message(batch(2, 3), 2.0)
        account = timeline.account(after=0, latest=3)
        assert account.repeated == 1
        account.require_right()

    def test_accounts_add_up(self) -> None:
        account = Account(received=1, repeated=1)
        account += Account(received=2, missing=3, timelines=1)
        assert account == Account(received=3, repeated=1, missing=3, timelines=1)
