"""The WebSocket's language."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.gateway import frames
from delivery.gateway.frames import Ack, Authenticate, BadFrame, Heartbeat, Messages, SendMessage, SyncRequest
from foundation.kernel.errors import Forbidden, RateLimited
from foundation.stores.errors import StoreRefused, StoreUnavailable


def message(sequence: int, chat: str = "chat_a") -> dict[str, Any]:
    return {"type": "message", "chat_id": chat, "sequence": sequence, "content": f"№ {sequence}"}


class TestReading:
    @pytest.mark.parametrize(
        ("frame", "expected"),
        [
            (
                {"type": "send_message", "client_message_id": "c", "chat_id": "x", "content": "hi", "new": 1},
                SendMessage("c", "x", "hi", "text/plain"),  # type: ignore[arg-type]
            ),
            ({"type": "ack", "chat_id": "x", "sequence": 7}, Ack("x", 7)),  # type: ignore[arg-type]
            (
                {"type": "sync_request", "chat_id": "x", "last_acked_sequence": 0},
                SyncRequest("x", 0, 100),  # type: ignore[arg-type]
            ),
            (
                {"type": "sync_request", "chat_id": "x", "last_acked_sequence": 5, "limit": 1},
                SyncRequest("x", 5, 1),  # type: ignore[arg-type]
            ),
            ({"type": "heartbeat"}, Heartbeat()),
            ({"type": "authenticate", "access_token": "t"}, Authenticate("t")),
        ],
    )
    def test_each_frame_of_the_contract(self, frame: dict[str, Any], expected: object) -> None:
        assert frames.read(json.dumps(frame)) == expected

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{",
            "[]",
            '"heartbeat"',
            "{}",
            '{"type": 5}',
            '{"type": ["heartbeat"]}',
            '{"type": "shout"}',
            '{"type": "send_message", "client_message_id": "c", "chat_id": "x"}',
            '{"type": "send_message", "client_message_id": 1, "chat_id": "x", "content": "hi"}',
            '{"type": "ack", "chat_id": "x", "sequence": 0}',
            '{"type": "ack", "chat_id": "x", "sequence": true}',
            '{"type": "ack", "chat_id": "x", "sequence": 1.0}',
            '{"type": "ack", "chat_id": "x", "sequence": 9007199254740992}',
            '{"type": "ack", "chat_id": "x", "sequence": 1e400}',
            '{"type": "sync_request", "chat_id": "x", "last_acked_sequence": -1}',
            '{"type": "sync_request", "chat_id": "x", "last_acked_sequence": 0, "limit": 101}',
            '{"type": "authenticate"}',
            '{"type": "heartbeat", "x": "\\ud800"}',
            "[" * 5000,
        ],
    )
    def test_anything_else_is_a_bad_frame(self, text: str) -> None:
        with pytest.raises(BadFrame):
            frames.read(text)

    @given(st.text(max_size=100))
    def test_no_text_raises_anything_else(self, text: str) -> None:
        with pytest.raises(BadFrame):
            frames.read(text)


class TestDeliveries:
    def test_one_message_is_a_message_frame(self) -> None:
        (frame,) = frames.delivered([message(1)])
        assert json.loads(frame.payload) == message(1)

    def test_a_run_of_one_chat_is_a_batch(self) -> None:
        (frame,) = frames.delivered([message(1), message(2)])
        bodies = [{name: value for name, value in message(n).items() if name != "type"} for n in (1, 2)]
        assert json.loads(frame.payload) == {"type": "message_batch", "chat_id": "chat_a", "messages": bodies}

    def test_other_chats_notices_and_steps_back_begin_anew(self) -> None:
        notice = {"type": "chat_created", "chat_id": "chat_c"}
        ready = list(frames.delivered([message(1), message(1, "chat_b"), notice, message(2), message(2), message(3)]))
        kinds = [json.loads(frame.payload)["type"] for frame in ready]
        assert kinds == ["message", "message", "chat_created", "message", "message_batch"]

    def test_batches_join_only_forward(self) -> None:
        first, second = Messages("a", 1, 2, (b"{}", b"{}")), Messages("a", 3, 3, (b"{}",))
        assert second.follows(first)
        assert not first.follows(second)
        (both,) = frames.joined([first, second])
        assert isinstance(both, Messages)
        assert (both.first, both.last, len(both.bodies)) == (1, 3, 3)
        assert frames.joined([second, first]) == [second, first]

    def test_a_batch_holds_a_hundred(self) -> None:
        many = frames.delivered([message(sequence) for sequence in range(1, 251)])
        assert [len(each.bodies) for each in many if isinstance(each, Messages)] == [100, 100, 50]

    @pytest.mark.parametrize(("size", "head"), [(125, 2), (126, 4), (65_535, 4), (65_536, 10)])
    def test_on_the_wire_it_is_a_whole_text_frame_of_that_length(self, size: int, head: int) -> None:
        wire = frames.Plain(b"x" * size).wire
        assert (wire[0], len(wire), wire[head:]) == (0x81, head + size, b"x" * size)
        stated = wire[1] if head == 2 else int.from_bytes(wire[2:head])
        assert stated == size


class TestErrors:
    def test_what_a_failure_of_our_own_was_about_stays_in_the_log(self, caplog: pytest.LogCaptureFixture) -> None:
        told = frames.failed(StoreRefused("DynamoDB refused PutItem: AccessDenied: arn:aws:iam::1:role/web")).payload
        assert json.loads(told)["code"] == "internal_error"
        assert b"arn:aws" not in told
        assert "arn:aws" in caplog.text

    def test_what_may_be_retried_says_so(self) -> None:
        told = json.loads(frames.failed(StoreUnavailable(), client_message_id="c", chat_id="x").payload)
        assert told["code"] == "store_unavailable"
        assert told["retryable"] is True
        assert (told["client_message_id"], told["chat_id"]) == ("c", "x")
        assert json.loads(frames.failed(RateLimited()).payload)["retryable"] is True
        assert json.loads(frames.failed(Forbidden()).payload)["retryable"] is False
