from dataclasses import replace
from typing import Any

import pytest

from foundation.kernel.ids import ChatId, MessageId, UserId
from messaging.domain import (
    MAX_CONTENT_BYTES,
    MAX_EMOJI_BYTES,
    MAX_MENTIONS,
    Action,
    Draft,
    Kind,
    Message,
    Sent,
)
from messaging.errors import ContentTooLarge, InvalidDraft

CHAT = ChatId("chat_01JJW3S0A0G5ZB1M2N3P4Q5R6S")
USER = UserId("user_01JJW3R1B0G5ZB1M2N3P4Q5R6S")


def draft(*, client_message_id: str = "id-1", content: str = "hello", content_type: str = "text/plain") -> Draft:
    return Draft(CHAT, USER, client_message_id, content, content_type)


class TestAcceptableDrafts:
    @pytest.mark.parametrize(
        "content",
        ["x", " ", "\n", "x" * MAX_CONTENT_BYTES, "😀" * (MAX_CONTENT_BYTES // 4), "\u0001", "é" * 2048],
        ids=["one", "space", "newline", "4096 bytes", "1024 four-byte characters", "control", "2048 two-byte"],
    )
    def test_content_of_1_to_4096_bytes(self, content: str) -> None:
        draft(content=content).require_valid()

    @pytest.mark.parametrize("client_message_id", ["!", "~" * 128, "5f0c1f6e-6f0f-4a53-9d0c-6f2f0d5a3b1e"])
    def test_ids_of_1_to_128_visible_characters(self, client_message_id: str) -> None:
        draft(client_message_id=client_message_id).require_valid()


class TestUnacceptableDrafts:
    @pytest.mark.parametrize("content", ["", "a\x00b", "\x00", "\ud800", "a\udfffb"])
    def test_empty_nul_and_lone_surrogates(self, content: str) -> None:
        with pytest.raises(InvalidDraft) as refused:
            draft(content=content).require_valid()
        assert list(refused.value.fields) == ["content"]

    @pytest.mark.parametrize(
        "content", ["x" * 4097, "😀" * 1024 + "x", "😀" * 4096], ids=["4097", "4097 mixed", "16384"]
    )
    def test_more_than_4096_bytes(self, content: str) -> None:
        with pytest.raises(ContentTooLarge) as refused:
            draft(content=content).require_valid()
        assert refused.value.code == "content_too_large"
        assert list(refused.value.fields) == ["content"]

    @pytest.mark.parametrize("client_message_id", ["", "x" * 129, "a b", "a\n", "\x7f", "é", "a\x00", "\ud800", " "])
    def test_ids_that_are_not_visible_ascii(self, client_message_id: str) -> None:
        with pytest.raises(InvalidDraft) as refused:
            draft(client_message_id=client_message_id).require_valid()
        assert list(refused.value.fields) == ["client_message_id"]

    @pytest.mark.parametrize("content_type", ["", "text/html", "TEXT/PLAIN", "text/plain; charset=utf-8"])
    def test_other_content_types(self, content_type: str) -> None:
        with pytest.raises(InvalidDraft) as refused:
            draft(content_type=content_type).require_valid()
        assert list(refused.value.fields) == ["content_type"]


CHANGES = {
    "edit": Draft(CHAT, USER, "id-1", "hello", kind=Kind.EDIT, target=1),
    "delete": Draft(CHAT, USER, "id-1", kind=Kind.DELETION, target=1),
    "react": Draft(CHAT, USER, "id-1", kind=Kind.REACTION, target=1, emoji="👍", action=Action.ADD),
    "pin": Draft(CHAT, USER, "id-1", kind=Kind.PIN, target=1, action=Action.ADD),
}
LONGEST: dict[str, tuple[str, Any, Any]] = {
    "client_message_id": ("", "x" * 128, "x" * 129),
    "content": ("message edit", "😀" * 1024, "😀" * 1024 + "x"),
    "mentions": ("message edit", (USER,) * MAX_MENTIONS, (USER,) * (MAX_MENTIONS + 1)),
    "emoji": ("react", "a" + "\u0301" * ((MAX_EMOJI_BYTES - 1) // 2), "a" + "\u0301" * (MAX_EMOJI_BYTES // 2)),
}
"""By field: the drafts that have it (none: all), its longest value, and a value that is too long."""


class TestLongestValues:
    @pytest.mark.parametrize(
        ("kind", "field"),
        [
            (kind, field)
            for kind in ("message", *CHANGES)
            for field, (kinds, _, _) in LONGEST.items()
            if not kinds or kind in kinds
        ],
    )
    def test_the_longest_is_accepted_and_one_more_refused(self, kind: str, field: str) -> None:
        of_kind, (_, longest, too_long) = CHANGES.get(kind, draft()), LONGEST[field]
        replace(of_kind, **{field: longest}).require_valid()
        with pytest.raises((InvalidDraft, ContentTooLarge)) as refused:
            replace(of_kind, **{field: too_long}).require_valid()
        assert list(refused.value.fields) == [field]

    @pytest.mark.parametrize("mentions", [("",), ("nobody",), (USER, USER + "x"), ("\ud800",), ("x" * 10_000,)])
    def test_mentions_are_user_ids(self, mentions: tuple[UserId, ...]) -> None:
        with pytest.raises(InvalidDraft):
            replace(CHANGES["edit"], mentions=mentions).require_valid()


class TestRetries:
    def message(self) -> Message:
        return Message(MessageId("msg_1"), CHAT, 7, USER, "id-1", "hello", "text/plain", "2026-01-30T14:30:00.000Z")

    def test_the_same_sender_and_content_is_an_honest_retry(self) -> None:
        assert draft().is_same_as(self.message())

    def test_other_content_or_another_sender_is_not(self) -> None:
        assert not draft(content="hello!").is_same_as(self.message())
        assert not Draft(CHAT, UserId("user_other"), "id-1", "hello").is_same_as(self.message())

    def test_the_answer_has_the_contracts_fields(self) -> None:
        assert Sent(self.message(), duplicate=True).to_json() == {
            "message_id": "msg_1",
            "chat_id": CHAT,
            "sequence": 7,
            "sender_id": USER,
            "client_message_id": "id-1",
            "content": "hello",
            "content_type": "text/plain",
            "created_at": "2026-01-30T14:30:00.000Z",
            "kind": "message",
            "duplicate": True,
        }
