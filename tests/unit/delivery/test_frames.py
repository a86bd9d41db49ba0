"""Parsing clients' frames, and encoding the frames to them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.gateway import frames
from delivery.gateway.deliveries import delivered
from delivery.gateway.frames import Messages
from delivery.gateway.requests import (
    Ack,
    Authenticate,
    BadFrame,
    ChangeMessage,
    Heartbeat,
    Read,
    SendMessage,
    SyncRequest,
    Typing,
    WatchPresence,
    parse,
)
from foundation.kernel.errors import Forbidden, RateLimited, as_parley_error
from foundation.stores.errors import StoreRefused, StoreUnavailable
from messaging.domain import MAX_SEQUENCE, Action, Kind


def message(sequence: int, chat: str = "chat_a") -> dict[str, Any]:
    return {"type": "message", "chat_id": chat, "sequence": sequence, "content": f"№ {sequence}"}


DRAFT = {"client_message_id": "c", "chat_id": "x"}
SEND = {"type": "send_message", **DRAFT, "content": "hi"}
EDIT = {"type": "edit_message", **DRAFT, "target": 7, "content": "hi"}
DELETE = {"type": "delete_message", **DRAFT, "target": 7}
REACT = {"type": "react", **DRAFT, "target": 7, "emoji": "👍", "action": "add"}
PIN = {"type": "pin", **DRAFT, "target": 7, "action": "add"}
DRAFTS = (SEND, EDIT, DELETE, REACT, PIN)
OPTIONAL = {"send_message": ("content_type", "reply_to", "mentions", "attachments"), "edit_message": ("mentions",)}

NO_TEXTS: tuple[Any, ...] = (None, 1, True, ["c"], {"c": 1})
NO_SEQUENCES: tuple[Any, ...] = (None, "7", 0, -1, 1.0, True, [7], MAX_SEQUENCE + 1, 2**64)
WRONG: dict[str, tuple[Any, ...]] = {
    "client_message_id": NO_TEXTS,
    "chat_id": NO_TEXTS,
    "content": NO_TEXTS,
    "content_type": NO_TEXTS,
    "emoji": NO_TEXTS,
    "target": NO_SEQUENCES,
    "reply_to": NO_SEQUENCES,
    "mentions": (None, "u", 1, {"u": 1}, [1], ["u", None], [["u"]]),
    "attachments": (None, "u", 1, {}, ["file"]),
    "action": (*NO_TEXTS, "", "ADD", "toggle", "x" * 10_000),
}
"""Values that are refused, by field."""


def fields_of(frame: dict[str, Any]) -> list[str]:
    return [name for name in (*frame, *OPTIONAL.get(frame["type"], ())) if name != "type"]


class TestDrafts:
    """The five frames that become entries of a chat's log."""

    @pytest.mark.parametrize(
        ("frame", "name"),
        [(frame, name) for frame in DRAFTS for name in frame if name != "type"],
        ids=lambda value: value["type"] if isinstance(value, dict) else value,
    )
    def test_a_required_field_that_is_missing_is_named(self, frame: dict[str, Any], name: str) -> None:
        with pytest.raises(BadFrame, match=f"^{name} must be "):
            parse(json.dumps({each: value for each, value in frame.items() if each != name}))

    @pytest.mark.parametrize(
        ("frame", "name"),
        [(frame, name) for frame in DRAFTS for name in fields_of(frame)],
        ids=lambda value: value["type"] if isinstance(value, dict) else value,
    )
    def test_a_value_of_another_type_or_out_of_range_is_refused(self, frame: dict[str, Any], name: str) -> None:
        parse(json.dumps(frame))
        for value in WRONG[name]:
            with pytest.raises(BadFrame, match=f"^{name} must be "):
                parse(json.dumps({**frame, name: value}))

    @pytest.mark.parametrize("frame", DRAFTS, ids=lambda frame: str(frame["type"]))
    def test_fields_of_other_frames_are_unknown(self, frame: dict[str, Any]) -> None:
        foreign = {name for other in DRAFTS for name in fields_of(other)} - set(fields_of(frame))
        for name in (*sorted(foreign), "sender_id", "sequence", "kind", "surprise"):
            with pytest.raises(BadFrame, match=f"^{name} is not a field of {frame['type']}$"):
                parse(json.dumps({**frame, name: 1}))

    @pytest.mark.parametrize("frame", [EDIT, DELETE, REACT, PIN], ids=lambda frame: str(frame["type"]))
    def test_a_change_without_an_id_is_refused(self, frame: dict[str, Any]) -> None:
        with pytest.raises(BadFrame, match=r"^client_message_id must be "):
            parse(json.dumps({**frame, "client_message_id": ""}))

    @pytest.mark.parametrize("wrong", [{"surprise": 1}, {"content": 7}, {"attachments": ["file"]}])
    def test_a_refusal_tells_what_it_is_about(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(BadFrame) as refusal:
            parse(json.dumps({**SEND, **wrong}))
        assert refusal.value.about == {name: SEND[name] for name in ("client_message_id", "chat_id")}

    def test_what_cannot_be_an_id_is_not_repeated(self) -> None:
        with pytest.raises(BadFrame) as refusal:
            parse(json.dumps({**SEND, "chat_id": 1, "client_message_id": "x" * 1_000}))
        assert refusal.value.about == {}

    def test_an_empty_list_of_attachments_says_nothing(self) -> None:
        assert parse(json.dumps({**SEND, "attachments": []})) == parse(json.dumps(SEND))

    def test_a_long_name_of_an_unknown_field_is_cut(self) -> None:
        with pytest.raises(BadFrame, match=r"^x{64} is not a field of pin$"):
            parse(json.dumps({**PIN, "x" * 10_000: 1}))


class TestParsing:
    @pytest.mark.parametrize(
        ("frame", "expected"),
        [
            (
                {"type": "send_message", "client_message_id": "c", "chat_id": "x", "content": "hi"},
                SendMessage("c", "x", "hi", "text/plain"),  # type: ignore[arg-type]
            ),
            (
                {**SEND, "content_type": "text/plain", "reply_to": 3, "mentions": ["u", "v"]},
                SendMessage("c", "x", "hi", "text/plain", 3, ("u", "v")),  # type: ignore[arg-type]
            ),
            (EDIT, ChangeMessage(Kind.EDIT, "c", "x", 7, content="hi")),  # type: ignore[arg-type]
            (
                {**EDIT, "mentions": ["u"]},
                ChangeMessage(Kind.EDIT, "c", "x", 7, content="hi", mentions=("u",)),  # type: ignore[arg-type]
            ),
            (DELETE, ChangeMessage(Kind.DELETION, "c", "x", 7)),  # type: ignore[arg-type]
            (
                REACT,
                ChangeMessage(Kind.REACTION, "c", "x", 7, emoji="👍", action=Action.ADD),  # type: ignore[arg-type]
            ),
            (
                {**PIN, "target": MAX_SEQUENCE, "action": "remove"},
                ChangeMessage(Kind.PIN, "c", "x", MAX_SEQUENCE, action=Action.REMOVE),  # type: ignore[arg-type]
            ),
            ({"type": "ack", "chat_id": "x", "sequence": 7}, Ack("x", 7)),  # type: ignore[arg-type]
            (
                {"type": "ack", "chat_id": "x", "sequence": 7, "read": False},
                Ack("x", 7, read=False),  # type: ignore[arg-type]
            ),
            (
                {"type": "sync_request", "chat_id": "x", "last_acked_sequence": 0},
                SyncRequest("x", 0, 100),  # type: ignore[arg-type]
            ),
            (
                {"type": "sync_request", "chat_id": "x", "last_acked_sequence": 5, "limit": 1},
                SyncRequest("x", 5, 1),  # type: ignore[arg-type]
            ),
            ({"type": "read", "chat_id": "x", "sequence": 7}, Read("x", 7)),  # type: ignore[arg-type]
            ({"type": "typing", "chat_id": "x", "active": False}, Typing("x", False)),  # type: ignore[arg-type]
            (
                {"type": "watch_presence", "chat_id": "x", "user_ids": ["u"]},
                WatchPresence("x", ("u",)),  # type: ignore[arg-type]
            ),
            ({"type": "heartbeat"}, Heartbeat()),
            ({"type": "authenticate", "access_token": "t"}, Authenticate("t")),
        ],
    )
    def test_each_frame_of_the_contract(self, frame: dict[str, Any], expected: object) -> None:
        assert parse(json.dumps(frame)) == expected

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
            '{"type": "ack", "chat_id": "x", "sequence": 1, "read": 0}',
            '{"type": "ack", "chat_id": "x", "sequence": 1.0}',
            '{"type": "ack", "chat_id": "x", "sequence": 9007199254740992}',
            '{"type": "ack", "chat_id": "x", "sequence": 1e400}',
            '{"type": "sync_request", "chat_id": "x", "last_acked_sequence": -1}',
            '{"type": "sync_request", "chat_id": "x", "last_acked_sequence": 0, "limit": 101}',
            '{"type": "authenticate"}',
            '{"type": "read", "chat_id": "x", "sequence": 0}',
            '{"type": "typing", "chat_id": "x"}',
            '{"type": "typing", "chat_id": "x", "active": 1}',
            '{"type": "watch_presence", "chat_id": "x", "user_ids": "u"}',
            '{"type": "watch_presence", "chat_id": "x", "user_ids": [1]}',
            '{"type": "heartbeat", "x": "\\ud800"}',
            "[" * 5000,
        ],
    )
    def test_anything_else_is_a_bad_frame(self, text: str) -> None:
        with pytest.raises(BadFrame):
            parse(text)

    @pytest.mark.parametrize(
        "kind", ["send_message", "ack", "read", "sync_request", "typing", "watch_presence", "heartbeat", "authenticate"]
    )
    def test_an_unknown_field_is_refused_and_named(self, kind: str) -> None:
        with pytest.raises(BadFrame) as refusal:
            parse(json.dumps({"type": kind, "surprise": 1}))
        assert refusal.value.detail == f"surprise is not a field of {kind}"
        assert refusal.value.code == "invalid_request"

    @given(st.text(max_size=100))
    def test_no_text_raises_anything_else(self, text: str) -> None:
        with pytest.raises(BadFrame):
            parse(text)


class TestDeliveries:
    def test_one_message_is_a_message_frame(self) -> None:
        (frame,) = delivered([message(1)])
        assert json.loads(frame.payload) == message(1)

    def test_a_run_of_one_chat_is_a_batch(self) -> None:
        (frame,) = delivered([message(1), message(2)])
        bodies = [{name: value for name, value in message(n).items() if name != "type"} for n in (1, 2)]
        assert json.loads(frame.payload) == {"type": "message_batch", "chat_id": "chat_a", "messages": bodies}

    def test_other_chats_notices_and_steps_back_begin_anew(self) -> None:
        notice = {"type": "chat_created", "chat_id": "chat_c"}
        ready = list(delivered([message(1), message(1, "chat_b"), notice, message(2), message(2), message(3)]))
        kinds = [json.loads(frame.payload)["type"] for frame in ready]
        assert kinds == ["message", "message", "chat_created", "message", "message_batch"]

    def test_batches_are_coalesced_only_forward(self) -> None:
        first, second = Messages("a", 1, 2, (b"{}", b"{}")), Messages("a", 3, 3, (b"{}",))
        assert second.follows(first)
        assert not first.follows(second)
        (both,) = frames.coalesce([first, second])
        assert isinstance(both, Messages)
        assert (both.first, both.last, len(both.bodies)) == (1, 3, 3)
        assert frames.coalesce([second, first]) == [second, first]

    def test_a_batch_of_long_messages_ends_at_the_size_of_a_page(self) -> None:
        long = b"x" * (frames.MAX_BATCH_BYTES // 4 + 1)
        ready = frames.coalesce([Messages("a", sequence, sequence, (long,)) for sequence in range(1, 9)])
        assert [len(each.bodies) for each in ready if isinstance(each, Messages)] == [3, 3, 2]

    def test_a_batch_holds_a_hundred(self) -> None:
        many = delivered([message(sequence) for sequence in range(1, 251)])
        assert [len(each.bodies) for each in many if isinstance(each, Messages)] == [100, 100, 50]

    @pytest.mark.parametrize(("size", "head"), [(125, 2), (126, 4), (65_535, 4), (65_536, 10)])
    def test_encoded_it_is_a_whole_text_frame_of_that_length(self, size: int, head: int) -> None:
        encoded = frames.Plain(b"x" * size).encoded
        assert (encoded[0], len(encoded), encoded[head:]) == (0x81, head + size, b"x" * size)
        stated = encoded[1] if head == 2 else int.from_bytes(encoded[2:head])
        assert stated == size


class TestErrors:
    def test_details_of_an_internal_error_are_logged_and_not_sent(self, caplog: pytest.LogCaptureFixture) -> None:
        payload = frames.failed(StoreRefused("DynamoDB refused PutItem: AccessDenied: arn:aws:iam::1:role/web")).payload
        assert json.loads(payload)["code"] == "internal_error"
        assert b"arn:aws" not in payload
        assert "arn:aws" in caplog.text

    def test_an_unexpected_error_is_logged_with_its_traceback(self, caplog: pytest.LogCaptureFixture) -> None:
        def break_down() -> None:
            raise KeyError("marks")

        try:
            break_down()
        except KeyError as error:
            payload = frames.failed(as_parley_error(error)).payload
        assert json.loads(payload)["code"] == "internal_error"
        assert b"marks" not in payload
        assert "break_down" in caplog.text

    def test_an_error_says_whether_a_retry_may_help(self) -> None:
        frame = json.loads(frames.failed(StoreUnavailable(), client_message_id="c", chat_id="x").payload)
        assert frame["code"] == "store_unavailable"
        assert frame["retryable"] is True
        assert (frame["client_message_id"], frame["chat_id"]) == ("c", "x")
        assert json.loads(frames.failed(RateLimited()).payload)["retryable"] is True
        assert json.loads(frames.failed(Forbidden()).payload)["retryable"] is False
