import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.frames import Drafts, ack, parse_messages, sequences, sync_request, to_micros
from bench.timeline import DeliveryCheck, InvalidRun, Timeline
from delivery.gateway.requests import Ack, SendMessage, SyncRequest, parse
from foundation.kernel.ids import ChatId


def message(sequence: int, due: float = 1.5) -> bytes:
    body = {"type": "message", "sequence": sequence, "client_message_id": f"1.{int(due * 10**6)}", "content": "x"}
    return orjson.dumps(body)


def batch(*numbers: int) -> bytes:
    return b'{"type":"message_batch","messages":[' + b",".join(map(message, numbers)) + b"]}"


class TestFrames:
    def test_the_server_understands_a_draft(self) -> None:
        request = parse(Drafts("c-1").next(12.5).decode())
        assert request == SendMessage("1.12500000", ChatId("c-1"), "x" * 120, "text/plain")

    def test_no_two_drafts_have_the_same_id(self) -> None:
        drafts = Drafts("c-1")
        assert drafts.next(1.0) != drafts.next(1.0)

    @given(due=st.floats(0, 10**8))
    @example(due=16_500.000001)
    def test_a_due_time_survives_the_round_trip(self, due: float) -> None:
        """The example is a clock value that truncation would round down by a microsecond."""
        arrived = to_micros(due) / 10**6
        assert to_micros(arrived) == to_micros(due)
        assert f"1.{to_micros(due)}".encode() in Drafts("c-1").next(due)

    def test_the_server_understands_the_other_frames(self) -> None:
        assert parse(ack("c-1", 7).decode()) == Ack(ChatId("c-1"), 7)
        assert parse(sync_request("c-1", 7, limit=50).decode()) == SyncRequest(ChatId("c-1"), 7, 50)

    def test_every_message_of_a_batch_is_read(self) -> None:
        assert sequences(batch(4, 5)) == [4, 5]
        assert list(parse_messages(batch(4, 5))) == [(4, 1.5), (5, 1.5)]

    def test_a_message_of_another_client_is_refused(self) -> None:
        with pytest.raises(ValueError, match="not a frame"):
            parse_messages(b'{"type":"message","sequence":1,"client_message_id":"hello"}')


class TestTimeline:
    def test_complete_and_in_order_passes(self) -> None:
        timeline = Timeline()
        timeline.add_message(message(4), 2.0)
        timeline.add_message(batch(5, 6), 3.0)
        check = timeline.check(after=3, latest=6)
        assert check == DeliveryCheck(received=3)
        check.require_passed()
        assert [(sequence, at) for sequence, _, at in timeline.messages()] == [(4, 2.0), (5, 3.0), (6, 3.0)]

    def test_own_messages_and_synced_ones_are_not_missing(self) -> None:
        timeline = Timeline()
        timeline.add_message(message(1), 2.0)
        timeline.add_ack(message(2), 2.0)
        timeline.add_sync(batch(3, 4))
        assert timeline.check(after=0, latest=4).missing == 0

    def test_a_gap_fails_the_run(self) -> None:
        timeline = Timeline()
        timeline.add_message(batch(1, 3), 2.0)
        check = timeline.check(after=0, latest=4)
        assert check.missing == 2
        with pytest.raises(InvalidRun, match="2 missing in 1 timelines"):
            check.require_passed()

    def test_a_message_out_of_order_fails_the_run(self) -> None:
        timeline = Timeline()
        timeline.add_message(batch(1, 3, 2), 2.0)
        check = timeline.check(after=0, latest=3)
        assert (check.out_of_order, check.missing) == (1, 0)
        with pytest.raises(InvalidRun, match="1 out of order"):
            check.require_passed()

    def test_a_duplicate_is_counted_and_allowed(self) -> None:
        timeline = Timeline()
        timeline.add_message(batch(1, 2), 2.0)
        timeline.add_message(batch(2, 3), 2.0)
        check = timeline.check(after=0, latest=3)
        assert check.duplicates == 1
        check.require_passed()

    def test_checks_add_up(self) -> None:
        check = DeliveryCheck(received=1, duplicates=1)
        check += DeliveryCheck(received=2, missing=3, incomplete=1)
        assert check == DeliveryCheck(received=3, duplicates=1, missing=3, incomplete=1)
