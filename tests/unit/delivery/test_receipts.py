"""Receipts: gathered once a second and chat, and delivered as each viewer may see them."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, cast
from unittest.mock import Mock

import orjson
import pytest

from accounts.domain import Visibility
from delivery.domain import Mark, Marks
from delivery.gateway import receipts
from delivery.gateway.broadcast import Broadcast, LiveFrame
from delivery.gateway.receipts import LiveReceipts, Moved, ReceiptDelivery
from delivery.services.privacy import PrivacySettings
from foundation.kernel.errors import Unavailable
from foundation.kernel.ids import ChatId, UserId

ADA, BOB, EVE = UserId("ada"), UserId("bob"), UserId("eve")
CHAT = ChatId("chat")


class Settings:
    """Privacy settings where some hide their read marks. `fails` is how many reads fail, after calling `on_read`."""

    def __init__(self, *hiding: UserId, fails: int = 0) -> None:
        self._hiding = hiding
        self.asked: set[UserId] = set()
        self.fails = fails
        self.on_read: Callable[[], None] = lambda: None

    async def of(self, user_ids: Iterable[UserId]) -> dict[UserId, Visibility]:
        asked = set(user_ids)
        self.asked |= asked
        self.on_read()
        if self.fails:
            self.fails -= 1
            raise Unavailable("the store is away")
        return {user_id: Visibility(read_receipts=user_id not in self._hiding) for user_id in asked}

    def as_settings(self) -> PrivacySettings:
        return cast(PrivacySettings, self)


class RecordingBroadcast:
    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []
        self.has_frames = asyncio.Event()

    async def send(self, frame: LiveFrame) -> None:
        self.frames.append(frame.frame)
        self.has_frames.set()


def socket_of(user_id: UserId) -> Mock:
    return Mock(registration=Mock(user_id=user_id))


def shown_to(socket: Mock) -> dict[str, int | None]:
    """The read marks that a socket was sent."""
    (call,) = socket.deliver.call_args_list
    return {mark["user_id"]: mark.get("last_read_sequence") for mark in orjson.loads(call.args[0].payload)["marks"]}


class TestGathering:
    async def test_marks_of_a_chat_are_published_together_and_then_once_a_second(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(receipts, "TICK", 0.01)
        now, broadcast = 100.0, RecordingBroadcast()
        live = LiveReceipts(cast(Broadcast, broadcast), privacy=Settings().as_settings(), monotonic=lambda: now)
        for sequence in (3, 1, 2):
            live.note(ADA, CHAT, Marks(acked=sequence), Mark.ACKED)
        live.note(BOB, CHAT, Marks(acked=5, read=4), Mark.ACKED)
        await asyncio.wait_for(broadcast.has_frames.wait(), 5)
        assert broadcast.frames == [
            {
                "type": "receipts",
                "chat_id": CHAT,
                "marks": [
                    {"user_id": ADA, "last_acked_sequence": 3},
                    {"user_id": BOB, "last_acked_sequence": 5, "last_read_sequence": 4},
                ],
            }
        ]
        live.note(ADA, CHAT, Marks(acked=4), Mark.ACKED)
        assert live._take_due() == {}
        now += receipts.INTERVAL
        assert live._take_due() == {CHAT: {ADA: Moved(Marks(acked=4), has_arrived=True)}}

    async def test_many_chats_that_are_due_are_spread_over_several_ticks_in_order(self) -> None:
        live = LiveReceipts(cast(Broadcast, RecordingBroadcast()), privacy=Settings().as_settings())
        chats = [ChatId(f"chat {number}") for number in range(800)]
        for chat_id in chats:
            live.note(ADA, chat_id, Marks(acked=1), Mark.ACKED)
        first, second = live._take_due(), live._take_due()
        assert list(first) == chats[:100]
        assert list(second) == chats[100:187]
        ticks = 2
        while live._take_due():
            ticks += 1
        assert ticks * receipts.TICK < 2 * receipts.INTERVAL

    async def test_a_few_chats_that_are_due_are_published_at_once(self) -> None:
        live = LiveReceipts(cast(Broadcast, RecordingBroadcast()), privacy=Settings().as_settings())
        for number in range(receipts.MIN_CHATS_PER_TICK):
            live.note(ADA, ChatId(f"chat {number}"), Marks(acked=1), Mark.ACKED)
        assert len(live._take_due()) == receipts.MIN_CHATS_PER_TICK

    async def test_too_many_chats_are_left_to_be_read(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(receipts, "MAX_CHATS", 1)
        live = LiveReceipts(cast(Broadcast, RecordingBroadcast()), privacy=Settings().as_settings())
        for chat_id in (CHAT, ChatId("other")):
            live.note(ADA, chat_id, Marks(acked=1), Mark.ACKED)
        assert list(live._waiting) == [CHAT]

    @pytest.mark.parametrize(
        ("steps", "only_read"),
        [
            ([(Marks(acked=3, read=2), Mark.READ)], True),
            ([(Marks(acked=3, read=3), Mark.READ)], True),
            ([(Marks(acked=2, read=3), Mark.READ)], None),
            ([(Marks(acked=3), Mark.ACKED), (Marks(acked=3, read=3), Mark.READ)], None),
        ],
    )
    async def test_it_is_told_where_nothing_but_the_read_mark_has_moved(
        self, steps: list[tuple[Marks, Mark]], only_read: bool | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(receipts, "TICK", 0.0)
        broadcast = RecordingBroadcast()
        live = LiveReceipts(cast(Broadcast, broadcast), privacy=Settings().as_settings())
        for marks, mark in steps:
            live.note(ADA, CHAT, marks, mark)
        await asyncio.wait_for(broadcast.has_frames.wait(), 5)
        assert broadcast.frames[0]["marks"][0].get("only_read") == only_read


class TestRetrying:
    @pytest.fixture(autouse=True)
    def _at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(receipts, "TICK", 0.0)
        monkeypatch.setattr(receipts, "INTERVAL", 0.0)

    async def test_receipts_wait_while_settings_cannot_be_read_and_are_published_with_what_moved_meanwhile(
        self,
    ) -> None:
        settings, broadcast = Settings(fails=2), RecordingBroadcast()
        live = LiveReceipts(cast(Broadcast, broadcast), privacy=settings.as_settings())
        live.note(BOB, CHAT, Marks(acked=5), Mark.ACKED)
        live.note(ADA, CHAT, Marks(read=3), Mark.READ)
        settings.on_read = lambda: live.note(ADA, CHAT, Marks(read=2, acked=4), Mark.ACKED) if settings.fails else None
        await asyncio.wait_for(broadcast.has_frames.wait(), 5)
        (frame,) = broadcast.frames
        assert {mark["user_id"]: mark["last_acked_sequence"] for mark in frame["marks"]} == {ADA: 4, BOB: 5}
        assert live._failures == {}

    async def test_after_many_attempts_they_are_left_to_be_read(self) -> None:
        settings, broadcast = Settings(fails=receipts.MAX_ATTEMPTS), RecordingBroadcast()
        live = LiveReceipts(cast(Broadcast, broadcast), privacy=settings.as_settings())
        live.note(ADA, CHAT, Marks(read=3), Mark.READ)
        assert live._publisher is not None
        await asyncio.wait_for(live._publisher, 5)
        assert (settings.fails, broadcast.frames, live._waiting, live._failures) == (0, [], {}, {})
        live.note(ADA, CHAT, Marks(read=4), Mark.READ)
        await asyncio.wait_for(broadcast.has_frames.wait(), 5)

    async def test_those_that_wait_again_are_bounded_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(receipts, "MAX_CHATS", 1)
        settings, broadcast = Settings(fails=1), RecordingBroadcast()
        live = LiveReceipts(cast(Broadcast, broadcast), privacy=settings.as_settings())
        live.note(ADA, CHAT, Marks(read=3), Mark.READ)
        settings.on_read = lambda: live.note(ADA, ChatId("other"), Marks(read=1), Mark.READ) if settings.fails else None
        await asyncio.wait_for(broadcast.has_frames.wait(), 5)
        assert [frame["chat_id"] for frame in broadcast.frames] == ["other"]
        assert (live._waiting, live._failures) == ({}, {})


class TestDelivering:
    frame: dict[str, Any] = {
        "type": "receipts",
        "chat_id": CHAT,
        "marks": [
            {"user_id": ADA, "last_acked_sequence": 3, "last_read_sequence": 3},
            {"user_id": BOB, "last_acked_sequence": 2, "last_read_sequence": 2, "hidden": True},
        ],
    }

    async def test_a_hidden_read_mark_is_for_the_own_devices_alone_and_who_hides_sees_none(self) -> None:
        ada, bob, eve = map(socket_of, (ADA, BOB, EVE))
        await ReceiptDelivery(Settings(BOB, EVE).as_settings()).deliver(self.frame, [ada, bob, eve])
        assert shown_to(ada) == {ADA: 3, BOB: None}
        assert shown_to(bob) == {ADA: None, BOB: 2}
        assert shown_to(eve) == {ADA: None, BOB: None}
        for socket in (ada, bob, eve):
            assert b"hidden" not in socket.deliver.call_args.args[0].payload

    async def test_who_may_not_see_a_read_mark_does_not_learn_that_it_has_moved(self) -> None:
        ada, bob, eve = map(socket_of, (ADA, BOB, EVE))
        read = {"last_acked_sequence": 3, "last_read_sequence": 3, "only_read": True}
        frame = {**self.frame, "marks": [{"user_id": ADA, **read}, {"user_id": BOB, **read, "hidden": True}]}
        await ReceiptDelivery(Settings(BOB, EVE).as_settings()).deliver(frame, [ada, bob, eve])
        assert shown_to(ada) == {ADA: 3}
        assert shown_to(bob) == {BOB: 3}
        assert eve.deliver.call_args_list == []
        assert b"only_read" not in ada.deliver.call_args.args[0].payload

    async def test_who_sees_the_same_shares_a_frame_that_is_encoded_once(self) -> None:
        ada, eve = socket_of(ADA), socket_of(EVE)
        await ReceiptDelivery(Settings(BOB).as_settings()).deliver(self.frame, [ada, eve])
        assert ada.deliver.call_args.args[0] is eve.deliver.call_args.args[0]

    async def test_without_read_marks_nobodys_settings_are_read(self) -> None:
        settings, ada = Settings(), socket_of(ADA)
        frame = {**self.frame, "marks": [{"user_id": BOB, "last_acked_sequence": 2}]}
        await ReceiptDelivery(settings.as_settings()).deliver(frame, [ada])
        assert (settings.asked, shown_to(ada)) == (set(), {BOB: None})
